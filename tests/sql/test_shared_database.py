"""No test sees what another left in the database that they share."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest
from tests.sql.conftest import Database, Server
from tests.sql.given import Given
from tests.sql.shared_database import SharedDatabase

from nightbench.core.model import Verdict, VerdictKind
from nightbench.local.postgres import SUPERUSER
from nightbench.warehouse import Warehouse, connect

TABLES = "select oid::regclass::text from pg_class where relkind in ('r', 'p') and oid >= 16384"
OID = "select oid from pg_database where datname = current_database()"
ANALYSED = """
select relname from pg_stat_user_tables where last_analyze is not null
union all
select relname from pg_class where relname in ('run', 'measurement') and reltuples > -1
union all
select relname from pg_statistic inner join pg_class as c on c.oid = starelid where relname = 'run'
"""
"""What `analyze` left; autovacuum does not come for a handful of rows."""


def select(server: Server, database: str, query: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(server.dsn(SUPERUSER, database))) as connection:
        cursor = connection.cursor()
        cursor.execute(query)
        return cursor.fetchall()


def contents(server: Server, database: str) -> dict[object, list[object]]:
    """The rows of every table."""
    tables = [table for (table,) in select(server, database, TABLES)]
    each = [f"select '{table}', t::text from {table} as t" for table in tables]
    found: dict[object, list[object]] = {table: [] for table in tables}
    for table, row in sorted(select(server, database, " union all ".join(each))):
        found[table].append(row)
    return found


@pytest.fixture
def lending(server: Server, template: str) -> SharedDatabase:
    return SharedDatabase(server, template)


def store(server: Server, name: str, given: Given) -> None:
    """A night with an alert, in a month that is made for it; and the planner's statistics."""
    with closing(connect(Database(server, name).loader)) as connection:
        warehouse, run, case = Warehouse(connection), given.run(), given.case()
        warehouse.runs.load(given.batch(run, given.came_back(run, case)))
        kind = VerdictKind.REGRESSED
        found = Verdict(case.case_id, "local", run.run_id, kind, "slower", 9.0, 10.0, -0.1)
        warehouse.alerts.open(found)
        warehouse.runs.refresh_statistics()


def test_what_a_test_stored_is_gone(
    lending: SharedDatabase, server: Server, template: str, given: Given
) -> None:
    first = lending.lend()
    oid, stored = select(server, first, OID), []
    for name in (first, ""):
        name = name or lending.lend()
        assert select(server, name, OID) == oid
        store(server, name, given)
        stored.append(contents(server, name))
        assert select(server, name, ANALYSED)
        lending.take_back(name, "test_x")
    # Numbers and months came again: the second test had nothing of the first.
    assert stored[0].keys() == stored[1].keys() > contents(server, template).keys()
    last = lending.lend()
    assert select(server, last, OID) == oid
    assert contents(server, last) == contents(server, template)
    assert select(server, last, "select last_value from pg_sequences where last_value > 0") == []
    assert select(server, last, ANALYSED) == []


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("create table public.mine (id int)", "pg_class"),
        ("drop table raw.detector_grade cascade", "raw.detector_grade"),
        ("create schema analysts", "pg_namespace"),
        ("create function public.mine() returns int language sql return 1", "pg_proc"),
        ("alter table raw.run add column extra int", "pg_attribute"),
        ("alter table raw.alert_event disable trigger append_only", "pg_trigger"),
        ("alter table raw.run add check (suite <> '')", "pg_constraint"),
        ("comment on table raw.run is 'mine'", "pg_description"),
        ("grant select on raw.lock to public", "pg_class"),
        (
            "alter default privileges in schema raw grant select on tables to public",
            "pg_default_acl",
        ),
        ("select lo_create(0)", "pg_largeobject_metadata"),
        ("delete from raw.reference_result", "raw.reference_result"),
        ("delete from migrations._yoyo_migration", "migrations._yoyo_migration"),
        ("grant create on database {} to nightbench_reader", "rights to the database"),
        ("alter database {} set work_mem = '5MB'", "settings of roles"),
    ],
)
def test_what_is_more_than_rows_fails_the_test_that_left_it(
    lending: SharedDatabase, server: Server, statement: str, what: str
) -> None:
    guilty = lending.lend()
    oid = select(server, guilty, OID)
    server.execute(statement.format(guilty), guilty)
    with pytest.raises(pytest.fail.Exception, match=rf"test_x left .*\b{what}\b.*own_warehouse"):
        lending.take_back(guilty, "test_x")
    assert select(server, lending.lend(), OID) != oid


@pytest.mark.parametrize(
    ("statement", "undo", "what"),
    [
        ("create role mine", "drop role mine", "roles"),
        (
            "alter role nightbench_reader connection limit 41",
            "alter role nightbench_reader connection limit 40",
            "roles",
        ),
        (
            "grant nightbench_loader to nightbench_reader",
            "revoke nightbench_loader from nightbench_reader",
            "members of roles",
        ),
        (
            "alter role nightbench_loader set work_mem = '5MB'",
            "alter role nightbench_loader reset work_mem",
            "settings of roles",
        ),
    ],
)
def test_so_does_what_the_whole_server_has(
    lending: SharedDatabase, server: Server, statement: str, undo: str, what: str
) -> None:
    lending.take_back(lending.lend(), "test_w")
    server.execute(statement)
    try:
        # Somebody with a database of their own did it before: no fault of the next one.
        lending.take_back(lending.lend(), "test_y")
    finally:
        server.execute(undo)
    guilty = lending.lend()
    server.execute(statement)
    try:
        with pytest.raises(pytest.fail.Exception, match=rf"test_x left .*\b{what}\b"):
            lending.take_back(guilty, "test_x")
    finally:
        server.execute(undo)


def test_a_database_that_was_put_in_its_place_is_not_lent_on(
    lending: SharedDatabase, server: Server, template: str
) -> None:
    lent = lending.lend()
    server.execute(f"alter database {lent} rename to {lent}_kept")
    server.execute(f"create database {lent} owner nightbench_owner template {template}")
    with pytest.raises(pytest.fail.Exception, match=r"test_x left .*rights to the database"):
        lending.take_back(lent, "test_x")
    server.execute(f"drop database {lent}_kept")


def test_who_is_connected_is_disconnected_and_does_not_come_back(
    lending: SharedDatabase, server: Server, template: str
) -> None:
    lent = Database(server, lending.lend())
    with closing(psycopg2.connect(lent.loader)) as late:
        late.cursor().execute("insert into raw.lock (name) values ('mine')")
        lending.take_back(lent.name, "test_x")
        with pytest.raises(psycopg2.OperationalError):
            late.commit()
    with pytest.raises(psycopg2.OperationalError, match="does not exist"):
        psycopg2.connect(lent.loader)
    assert contents(server, lending.lend()) == contents(server, template)
