"""Connections are used again while they answer, and replaced where they do not."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

import pytest
from tests.sql.conftest import Database

from nightbench.core.errors import WarehouseUnavailable
from nightbench.warehouse import connect
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.connection_pool import KEPT, LIVES_S, ConnectionPool


def pid(connection: Connection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        ((found,),) = cursor.fetchall()
    return int(found)


def lent(pool: ConnectionPool) -> int:
    with pool.acquire() as connection:
        return pid(connection)


def test_a_connection_is_used_again_until_it_is_old(
    warehouse: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = ConnectionPool(lambda: connect(warehouse.reader))
    first = lent(pool)
    assert lent(pool) == first
    later = time.time() + LIVES_S + 1
    monkeypatch.setattr("sqlalchemy.pool.base.time.time", lambda: later)
    assert lent(pool) != first


def test_two_at_once_have_their_own_and_both_are_kept(warehouse: Database) -> None:
    pool = ConnectionPool(lambda: connect(warehouse.reader))
    with pool.acquire() as one, pool.acquire() as other:
        pids = {pid(one), pid(other)}
    assert len(pids) == 2
    with pool.acquire() as one, pool.acquire() as other:
        assert {pid(one), pid(other)} == pids


def test_more_than_are_kept_are_lent_at_once(warehouse: Database) -> None:
    pool = ConnectionPool(lambda: connect(warehouse.reader))
    with ExitStack() as stack:
        pids = {pid(stack.enter_context(pool.acquire())) for _ in range(KEPT + 2)}
    assert len(pids) == KEPT + 2


def test_a_warehouse_that_is_away_is_said_in_our_words(warehouse: Database) -> None:
    def away() -> Connection:
        raise WarehouseUnavailable("nobody answers")

    with pytest.raises(WarehouseUnavailable, match="nobody answers"):
        lent(ConnectionPool(away))


def test_one_that_the_server_has_ended_is_replaced(warehouse: Database) -> None:
    pool = ConnectionPool(lambda: connect(warehouse.reader))
    first = lent(pool)
    with closing(connect(warehouse.reader)) as other, other.cursor() as cursor:
        cursor.execute("select pg_terminate_backend(%s)", (first,))
    assert lent(pool) != first


def test_one_that_something_went_wrong_with_is_closed(warehouse: Database) -> None:
    pool = ConnectionPool(lambda: connect(warehouse.reader))
    with pytest.raises(ZeroDivisionError), pool.acquire() as connection:
        _ = 1 / 0
    assert connection.closed
    lent(pool)
