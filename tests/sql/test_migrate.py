"""Migrations: from empty, all or nothing, at once from two sides, and the rights they give."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import psycopg2
import pytest

from nightbench.core.errors import WarehouseRefused, WarehouseUnavailable
from nightbench.warehouse import Warehouse, connect, migrate, statements

MIGRATIONS = sorted(path.stem for path in (statements.SQL / "migrations").glob("*.sql"))


def _select(dsn: str, query: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def test_an_empty_database_gets_everything_and_a_second_call_nothing(empty):
    assert migrate.pending(empty.owner) == []
    assert migrate.apply(empty.owner) == MIGRATIONS
    before = _select(empty.owner, "select oid::text, xmin::text from pg_class order by 1")
    assert migrate.apply(empty.owner) == []
    assert _select(empty.owner, "select oid::text, xmin::text from pg_class order by 1") == before


def test_every_view_file_is_made(empty):
    files = {
        f"{folder}/{path.stem}"
        for folder in ("staging", "marts")
        for path in (statements.SQL / folder).glob("*.sql")
    }
    migrate.apply(empty.owner)
    made = _select(
        empty.owner,
        "select schemaname || '/' || viewname from pg_views"
        " where schemaname in ('staging', 'marts')",
    )
    assert {row[0] for row in made} == files


def test_a_view_whose_file_is_missing_stays_and_is_named(empty, tmp_path, monkeypatch):
    migrate.apply(empty.owner)
    shutil.copytree(statements.SQL, tmp_path / "sql")
    (tmp_path / "sql" / "marts" / "roofline.sql").unlink()
    monkeypatch.setattr(statements, "SQL", tmp_path / "sql")
    with pytest.raises(WarehouseRefused, match=r"no file for marts\.roofline"):
        migrate.apply(empty.owner)
    _select(empty.owner, "select * from marts.roofline")


def test_every_table_and_view_says_what_it_is(warehouse):
    silent = _select(
        warehouse.owner,
        "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = relnamespace"
        " where nspname in ('raw', 'staging', 'marts') and relkind in ('r', 'v')"
        " and obj_description(c.oid, 'pg_class') is null",
    )
    assert silent == []


def test_any_role_sees_whether_it_is_up_to_date(empty, monkeypatch):
    with closing(connect(empty.reader)) as connection:
        assert not migrate.is_current(connection)
        migrate.apply(empty.owner)
        assert migrate.is_current(connection)
        monkeypatch.setattr(migrate, "_views", lambda: {})
        assert not migrate.is_current(connection)


def test_the_next_release_reaches_months_and_neither_reads_nor_writes_them(empty, given, tmp_path):
    """Years of results take no longer than none, and their medians stay."""
    migrate.apply(empty.owner)
    case = given.case()

    def load(night: int, throughput: float) -> None:
        batch = given.batch(
            given.run(night), given.came_back(given.run(night), case, (throughput,))
        )
        with closing(connect(empty.loader)) as connection:
            Warehouse(connection).runs.load(batch)

    load(0, 11.0)
    next_one = "9999-of-the-next-release"
    shutil.copytree(statements.SQL / "migrations", tmp_path / "next")
    (tmp_path / "next" / f"{next_one}.sql").write_text(
        "alter table raw.measurement add column of_the_next_release integer,\n"
        "add constraint measurement_of_the_next_release_check\n"
        "check (of_the_next_release > 0) not valid;\n"
    )
    # Files of tables and indexes, and constraints that were proved by reading rows.
    rests = (
        "select relname, relfilenode::text from pg_class where relname ~ '_2026_03' union all"
        " select conrelid::regclass::text, conname from pg_constraint"
        " where conrelid::regclass::text ~ '_2026_03$' and contype in ('c', 'f') and convalidated"
        " order by 1, 2"
    )
    before = _select(empty.owner, rests)
    assert len(before) > 20
    assert migrate.apply(empty.owner, tmp_path / "next") == [next_one]
    assert _select(empty.owner, rests) == before
    assert _select(empty.reader, "select throughput from marts.latest_median") == [(11.0,)]
    (month,) = _select(
        empty.owner,
        "select count(*) from information_schema.columns"
        " where column_name = 'of_the_next_release' and table_name = 'measurement_2026_03'",
    )
    assert month == (1,)
    load(1, 12.0)
    assert _select(empty.reader, "select throughput from marts.latest_median") == [(12.0,)]


def test_a_migration_that_fails_leaves_nothing(empty, tmp_path):
    shutil.copytree(statements.SQL / "migrations", tmp_path / "migrations")
    (tmp_path / "migrations" / "0900-half.sql").write_text(
        "create table raw.half (id int);\ncreate table raw.half (id int);\n"
    )
    with pytest.raises(WarehouseRefused, match=r"0900-half\.sql.*already exists"):
        migrate.apply(empty.owner, tmp_path / "migrations")
    assert (
        _select(
            empty.owner,
            "select nspname from pg_namespace where nspname in ('raw', 'staging', 'marts')",
        )
        == []
    )
    assert migrate.apply(empty.owner) == MIGRATIONS


@pytest.mark.usefixtures("own_warehouse")
def test_a_later_migration_that_fails_keeps_tables_and_views(warehouse, tmp_path):
    shutil.copytree(statements.SQL / "migrations", tmp_path / "migrations")
    bad = tmp_path / "migrations" / "0900-half.sql"
    bad.write_text("alter table raw.run add column extra int;\nselect 1 / 0;\n")
    with pytest.raises(WarehouseRefused, match="division by zero"):
        migrate.apply(warehouse.owner, tmp_path / "migrations")
    columns = _select(
        warehouse.owner,
        "select column_name from information_schema.columns"
        " where table_schema = 'raw' and table_name = 'run' and column_name = 'extra'",
    )
    assert columns == []
    assert _select(warehouse.owner, "select count(*) from marts.fct_measurement") == [(0,)]
    bad.write_text("alter table raw.run add column extra int;\n")
    assert migrate.apply(warehouse.owner, tmp_path / "migrations") == ["0900-half"]


def test_many_at_once_make_their_lock_once(empty):
    def lock(start):
        with closing(migrate._connect(empty.owner)) as connection:
            start.wait()
            migrate._lock(connection)

    # Each of the errors that are suppressed came within some sixty rounds.
    for _ in range(60):
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lock, [Barrier(4)] * 4)) == [None] * 4
        with closing(migrate._connect(empty.owner)) as connection, connection.cursor() as cursor:
            cursor.execute("drop schema migrations cascade")


def test_two_at_once_apply_each_migration_once(empty):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(migrate.apply, [empty.owner, empty.owner])
    assert sorted([first, second], key=len) == [[], MIGRATIONS]
    marked = _select(empty.owner, "select migration_id from migrations._yoyo_migration order by 1")
    assert [row[0] for row in marked] == MIGRATIONS


@pytest.mark.usefixtures("own_warehouse")
def test_a_view_whose_columns_change(warehouse, monkeypatch, tmp_path):
    changed = tmp_path / "sql"
    shutil.copytree(statements.SQL, changed)
    (changed / "marts" / "fct_alert.sql").write_text(
        "create or replace view marts.fct_alert as select alert_id as id from raw.alert;\n"
    )
    monkeypatch.setattr(statements, "SQL", changed)
    assert migrate.apply(warehouse.owner) == []
    columns = _select(
        warehouse.reader,
        "select table_name, column_name from information_schema.columns"
        " where table_schema = 'marts' and table_name = 'fct_alert'",
    )
    assert columns == [("fct_alert", "id")]
    # The reader may still read what was made anew.
    assert _select(warehouse.reader, "select count(*) from marts.fct_alert") == [(0,)]


@pytest.mark.usefixtures("own_warehouse")
def test_somebody_elses_view_on_a_mart_is_named_and_kept(warehouse, monkeypatch, tmp_path):
    with closing(connect(warehouse.owner)) as owner, owner.cursor() as cursor:
        cursor.execute("create schema analysts")
        cursor.execute("create view analysts.mine as select alert_id from marts.fct_alert")
    changed = tmp_path / "sql"
    shutil.copytree(statements.SQL, changed)
    (changed / "marts" / "fct_alert.sql").write_text(
        "create or replace view marts.fct_alert as select case_id from raw.alert;\n"
    )
    monkeypatch.setattr(statements, "SQL", changed)
    with pytest.raises(WarehouseRefused, match=r"analysts\.mine"):
        migrate.apply(warehouse.owner)
    assert _select(warehouse.owner, "select count(*) from analysts.mine") == [(0,)]


@pytest.mark.parametrize(
    "statement",
    [
        "insert into raw.build (build_id, line, variant, source) values ('b', 'l', 'v', 'index')",
        "update raw.run set suite = 'x'",
        "delete from raw.run",
        "create table raw.mine (id int)",
        "create table public.mine (id int)",
        "create view marts.mine as select 1",
        "select * from migrations._yoyo_migration",
    ],
)
def test_the_reader_only_reads(warehouse, statement):
    with closing(connect(warehouse.reader)) as reader, reader.cursor() as cursor:
        for relation in ("raw.run", "staging.run", "marts.fct_measurement"):
            cursor.execute(f"select count(*) from {relation}")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "drop table raw.run cascade",
        "delete from raw.run",
        "truncate raw.run cascade",
        "alter table raw.run add column extra int",
        "create table raw.mine (id int)",
        "drop view marts.fct_alert",
        "create or replace view marts.fct_alert as select 1 as alert_id",
    ],
)
def test_the_loader_stores_and_removes_nothing(warehouse, statement):
    with closing(connect(warehouse.loader)) as loader, loader.cursor() as cursor:
        cursor.execute(
            "insert into raw.build (build_id, line, variant, source)"
            " values ('b', 'l', 'v', 'index')"
        )
        cursor.execute("update raw.build set version = '1'")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(statement)


def test_the_reader_may_not_migrate(empty):
    with pytest.raises(WarehouseUnavailable, match="permission denied to set role"):
        migrate.apply(empty.reader)


def test_a_folder_without_migrations_is_an_error(empty, tmp_path: Path):
    with pytest.raises(Exception, match="holds no migrations"):
        migrate.apply(empty.owner, tmp_path)
