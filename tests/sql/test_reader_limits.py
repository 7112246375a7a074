"""What a reader may do to the warehouse: read, for a while, and hold nobody up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest
from tests.sql.conftest import Database

from nightbench.core.errors import WarehouseUnavailable
from nightbench.core.model import HealthPolicy
from nightbench.nodes import NodeEvent
from nightbench.nodes.quarantine import FAULT
from nightbench.warehouse import Warehouse, connect, migrate
from nightbench.warehouse.statements import text

pytestmark = pytest.mark.usefixtures("own_warehouse")  # rights and roles change


@pytest.fixture
def limited(warehouse: Database) -> Database:
    """A warehouse as `nightbench up` makes it."""
    warehouse.server.execute(f"revoke all on database {warehouse.name} from public")
    warehouse.server.execute(
        f"grant connect on database {warehouse.name} to nightbench_loader, nightbench_reader"
    )
    warehouse.server.execute(text("reader_limits.sql"), warehouse.name)
    return warehouse


@pytest.fixture
def as_reader(limited: Database) -> Iterator[psycopg2.extensions.connection]:
    with closing(psycopg2.connect(limited.reader)) as connection:
        connection.autocommit = True
        yield connection


def test_a_reader_has_a_time_limit_and_few_connections(as_reader):
    with as_reader.cursor() as cursor:
        cursor.execute("show statement_timeout")
        assert cursor.fetchone() == ("1min",)
        cursor.execute("select rolconnlimit from pg_roles where rolname = current_user")
        assert cursor.fetchone() == (40,)


@pytest.mark.parametrize(
    "statement",
    [
        "select lo_create(0)",
        "select lo_from_bytea(0, 'x')",
        "create temp table t (a int)",
        "insert into raw.lock (name) values ('x')",
        "select from raw.lock for update",
        "select from raw.lock for key share",
        "select raw.try_session_lock('alerts of lab')",
        "lock table raw.lock in row share mode",
    ],
)
def test_a_reader_stores_and_locks_nothing(as_reader, statement):
    with as_reader.cursor() as cursor:
        cursor.execute("begin")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(statement)


def test_locks_of_a_reader_stall_nobody(limited, as_reader):
    with as_reader.cursor() as cursor:
        # The keys of the advisory locks that there were, and all that a reader may lock.
        cursor.execute("select pg_advisory_lock(hashtext('nightbench alerts'), hashtext('lab'))")
        cursor.execute("select pg_advisory_lock(hashtextextended('nightbench nodes of lab', 0))")
        cursor.execute(f"select pg_advisory_lock({0x6E626D69})")
        cursor.execute("begin")
        cursor.execute("lock table raw.lock, raw.alert in access share mode")
    with closing(connect(limited.loader, lock_timeout_s=2)) as connection:
        warehouse = Warehouse(connection)
        warehouse.alerts.lock("lab")
        event = NodeEvent("lab", "n1", datetime(2026, 11, 21, tzinfo=UTC), FAULT)
        assert warehouse.nodes.count("lab", [event], HealthPolicy()).keys() == {"n1"}
    assert migrate.apply(limited.owner) == []


def test_a_session_lock_waits_for_its_owner_and_goes_with_it(limited, monkeypatch):
    monkeypatch.setattr("nightbench.warehouse.alerts.LOCK_TIMEOUT_S", 0.5)
    with closing(connect(limited.loader)) as second:
        with closing(connect(limited.loader)) as first:
            Warehouse(first).alerts.lock("lab")
            Warehouse(first).alerts.lock("lab")  # its own
            Warehouse(second).alerts.lock("another")
            with pytest.raises(WarehouseUnavailable, match="locked the alerts of lab"):
                Warehouse(second).alerts.lock("lab")
        Warehouse(second).alerts.lock("lab")


def test_of_two_who_come_at_once_one_gets_the_lock(limited):
    got: list[bool] = []
    barrier = threading.Barrier(8)

    def take(connection: psycopg2.extensions.connection) -> None:
        barrier.wait()
        got.append(Warehouse(connection).nights.lock())

    connections = [connect(limited.loader) for _ in range(8)]
    threads = [threading.Thread(target=take, args=(each,)) for each in connections]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == [False] * 7 + [True]
    finally:
        for each in connections:
            each.close()


def test_an_owner_that_connected_after_the_look_at_all_sessions_is_seen(limited):
    """PostgreSQL looks at its sessions once in a transaction; another may come just then."""
    with closing(connect(limited.loader)) as slow, slow, slow.cursor() as cursor:
        cursor.execute("select count(*) from pg_stat_activity")
        with closing(connect(limited.loader)) as quick:
            assert Warehouse(quick).nights.lock()
            assert not Warehouse(slow).nights.lock()


@pytest.mark.parametrize("name", ["\u202eeve", "e\x07ve", "e" * 201])
def test_names_are_plain_and_short_at_every_door(limited, name):
    with closing(psycopg2.connect(limited.loader)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor, pytest.raises(psycopg2.errors.CheckViolation):
            cursor.execute(
                "insert into raw.run (run_id, suite, cluster, started_at, requested_by)"
                " values ('r', 's', 'c', now(), %s)",
                (name,),
            )
