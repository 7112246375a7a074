"""Connections are used again while they answer, and replaced where they do not."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.sql.conftest import Database

from nightbench.warehouse import connect
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.connection_pool import KEPT, LIVES_S, ConnectionPool


def pid(connection: Connection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        ((found,),) = cursor.fetchall()
    return int(found)


def lent(pool: ConnectionPool) -> int:
    with pool.lend() as connection:
        return pid(connection)


def test_a_connection_is_used_again_until_it_is_old(warehouse: Database) -> None:
    now = [0.0]
    pool = ConnectionPool(lambda: connect(warehouse.reader), lambda: now[0])
    first = lent(pool)
    assert lent(pool) == first
    now[0] = LIVES_S
    assert lent(pool) != first


def test_two_at_once_have_their_own(warehouse: Database) -> None:
    pool = ConnectionPool(lambda: connect(warehouse.reader))
    with pool.lend() as one, pool.lend() as other:
        assert pid(one) != pid(other)
    assert len(pool._idle) == 2
    assert KEPT >= 2


def test_one_that_the_server_has_ended_is_replaced(warehouse: Database) -> None:
    pool = ConnectionPool(lambda: connect(warehouse.reader))
    first = lent(pool)
    with closing(connect(warehouse.reader)) as other, other.cursor() as cursor:
        cursor.execute("select pg_terminate_backend(%s)", (first,))
    assert lent(pool) != first


def test_one_that_something_went_wrong_with_is_closed(warehouse: Database) -> None:
    pool = ConnectionPool(lambda: connect(warehouse.reader))
    with pytest.raises(ZeroDivisionError), pool.lend() as connection:
        _ = 1 / 0
    assert connection.closed
    assert pool._idle == []
