"""One migrated database of a worker that tests get one after another, emptied in between.

That takes less CPU than a copy of the template for each. What a test can leave in a database is
emptied, or found by `_state` and fails the test that left it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest
from psycopg2.extensions import cursor

from nightbench.local.postgres import SUPERUSER

if TYPE_CHECKING:
    from tests.sql.conftest import Server

GROWN = 2
"""Times its first size at which a database is not lent on: no test waits for dead rows."""

PATIENCE_MS = 60_000

_MONTHS = """
select i.inhrelid::regclass::text
from pg_inherits as i
inner join pg_class as c on c.oid = i.inhrelid
where c.relkind = 'r'
"""

_UNTRIGGERED = "set session_replication_role = replica"
"""Some triggers refuse to have a history rewritten; others check foreign keys."""

_FORGET = """
select setval(seqrelid, seqstart, false)
from pg_sequence
where pg_sequence_last_value(seqrelid) is not null;
-- What the planner knows of a table that somebody analysed; and that it was.
delete from pg_statistic using pg_class as c where c.oid = starelid and c.oid >= 16384;
update pg_class set relpages = 0, reltuples = -1, relallvisible = 0
where oid >= 16384 and relkind in ('r', 'p') and reltuples > -1;
select pg_stat_reset();
"""

_TABLES = """
select oid::regclass::text
from pg_class
where relkind = 'r' and not relispartition and oid >= 16384
order by 1
"""

_CATALOGS = """
select oid::regclass::text
from pg_class
where
    relkind = 'r' and not relisshared and relnamespace = 'pg_catalog'::regnamespace
    -- A month that came and went leaves its mark in pg_class; dependencies go with their objects.
    and relname not in ('pg_class', 'pg_depend', 'pg_namespace', 'pg_statistic')
order by 1
"""

_CONTENT = "select {0}, count(*)::text, max(xmin::text::bigint)::text from {1}"
"""Who adds or changes a row leaves a later transaction; who removes one leaves fewer."""

_OBJECTS = """
select 'pg_class', count(*)::text, md5(string_agg(row(
    oid, relname, relnamespace, relkind, relowner, relacl, reloptions, relnatts, relchecks,
    relhasrules, relrowsecurity, relforcerowsecurity, relpersistence, relreplident
)::text, ',' order by oid))
from pg_class
where relpersistence <> 't'
union all
select 'pg_namespace', count(*)::text, md5(string_agg(n::text, ',' order by oid))
from pg_namespace as n
where nspname !~ '^pg_(toast_)?temp_'
union all
select 'sequences', count(*)::text, string_agg(sequencename::text, ',')
from pg_sequences
where last_value is not null
union all
select 'rights to the database', oid::text, row(datdba, datallowconn, datconnlimit, datacl)::text
from pg_database
where datname = current_database()
"""

_ROLES = """
select 'roles', count(*)::text, md5(string_agg(r::text, ',' order by oid)) from pg_authid as r
union all
select 'members of roles', count(*)::text, md5(string_agg(m::text, ',' order by oid))
from pg_auth_members as m
union all
select
    'settings of roles', count(*)::text,
    md5(string_agg(s::text, ',' order by setdatabase, setrole))
from pg_db_role_setting as s
"""
"""Of the whole server: a test with a database of its own may have changed them before."""

_DISCONNECT = """
select pg_terminate_backend(pid, %(patience_ms)s) from pg_stat_activity where datname = %(name)s
"""

_SIZE = "select sum(pg_relation_size(oid)) from pg_class where relkind in ('r', 'i', 't')"


class SharedDatabase:
    """Lends one database, each time by another name: who knows an earlier one finds nothing."""

    def __init__(self, server: Server, template: str) -> None:
        self.server = server
        self._template = template
        self._waiting = ""
        """Name of the database that the next test gets; empty if it gets a new one."""

    def lend(self) -> str:
        """Return the name of a database that is as the template is."""
        name, self._waiting = self._waiting, ""
        if not name:
            name = _new_name()
            self.server.execute(
                f"create database {name} owner nightbench_owner template {self._template}"
            )
            with self._cursor(name) as cursor:
                self._tables = _column(cursor, _TABLES)
                self._catalogs = _column(cursor, _CATALOGS)
                self._initial = self._state(cursor)
                (self._size,) = _column(cursor, _SIZE)
        with self._cursor("postgres") as cursor:
            self._initial |= _marks(cursor, _ROLES)
        return name

    def take_back(self, name: str, test: str) -> None:
        """Empty a database; fail where a test left more than rows. Nobody stays connected."""
        emptied = _new_name()
        with self._cursor("postgres") as cursor:
            cursor.execute(_DISCONNECT, {"name": name, "patience_ms": PATIENCE_MS})
            cursor.execute(f"alter database {name} rename to {emptied}")
        try:
            left, size = self._empty(emptied)
        except psycopg2.Error as error:
            left, size = [str(error).splitlines()[0]], 0
        if left or size > GROWN * self._size:
            self.server.execute(f"drop database {emptied} with (force)")
        else:
            self._waiting = emptied
        if left:
            pytest.fail(
                f"{test} left something in the database that tests share ({', '.join(left)}). "
                "A test that changes more than the rows of tables uses own_warehouse.",
                pytrace=False,
            )

    def _empty(self, database: str) -> tuple[list[str], int]:
        """Remove all rows that the template lacks; return what else was changed, and bytes."""
        with self._cursor(database) as cursor:
            cursor.execute(_UNTRIGGERED)
            if months := _column(cursor, _MONTHS):
                cursor.execute(f"drop table {', '.join(months)}")
            empty = [table for table in self._tables if self._initial[table][0] == "0"]
            looks = [f"(select '{table}' from {table} limit 1)" for table in empty]
            if filled := _column(cursor, " union all ".join(looks)):
                cursor.execute("; ".join(f"delete from {table}" for table in filled))
                # No dead row lies where the next test's are stored, which changes their order.
                cursor.execute(f"vacuum (index_cleanup on, truncate on) {', '.join(filled)}")
            cursor.execute(_FORGET)
            state = self._state(cursor)
            (size,) = _column(cursor, _SIZE)
        return [what for what, initial in self._initial.items() if state[what] != initial], size

    @contextmanager
    def _cursor(self, database: str) -> Iterator[cursor]:
        with closing(psycopg2.connect(self.server.dsn(SUPERUSER, database))) as connection:
            connection.autocommit = True
            with connection.cursor() as made:
                yield made

    def _state(self, cursor: cursor) -> dict[str, tuple[str, str | None]]:
        """Return what tells of each table, catalog and other thing whether it was changed."""
        named = [*self._tables, *self._catalogs]
        queries = [_CONTENT.format(f"'{name}'", name) for name in named]
        return _marks(cursor, " union all ".join([*queries, _OBJECTS, _ROLES]))


def _new_name() -> str:
    return f"nb_{os.getpid()}_{time.monotonic_ns()}"


def _column(cursor: cursor, query: str) -> list[Any]:
    cursor.execute(query)
    return [value for (value,) in cursor.fetchall()]


def _marks(cursor: cursor, query: str) -> dict[str, tuple[str, str | None]]:
    cursor.execute(query)
    return {what: (count, mark) for what, count, mark in cursor.fetchall()}
