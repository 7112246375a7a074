"""PostgreSQL away, or not letting us in: what a user is told."""

from __future__ import annotations

from contextlib import closing

import pytest

from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.local.ports import is_free
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import reported


def test_nobody_answers():
    port = next(p for p in range(17600, 17999) if is_free(p))
    with pytest.raises(WarehouseUnavailable) as raised:
        connect({"host": "127.0.0.1", "port": port, "dbname": "warehouse", "password": "s3cret"})
    message = str(raised.value)
    assert f"127.0.0.1:{port}" in message
    assert "refused" in message
    assert "nightbench up" in message
    assert "s3cret" not in message


def test_a_wrong_password_is_named_and_not_shown(warehouse):
    parts = dict(word.split("=") for word in warehouse.reader.split())
    with pytest.raises(WarehouseUnavailable, match="Check the password of nightbench_reader") as e:
        connect(parts | {"password": "wrong-one"})
    assert "wrong-one" not in str(e.value)


def test_a_missing_database(warehouse):
    parts = dict(word.split("=") for word in warehouse.reader.split())
    with pytest.raises(WarehouseUnavailable, match=r"nowhere.*made by `nightbench up`"):
        connect(parts | {"dbname": "nowhere"})


def test_no_connection_string():
    with pytest.raises(UserError, match="cannot be read"):
        connect("host=127.0.0.1 prot=1")


def test_the_session_says_who_it_is_and_has_limits(warehouse):
    with closing(connect(warehouse.reader, statement_timeout_s=1.5)) as connection:
        cursor = connection.cursor()
        settings = []
        for name in ("application_name", "statement_timeout", "lock_timeout", "timezone"):
            cursor.execute(f"show {name}")
            settings += cursor.fetchone()
        assert settings == ["nightbench", "1500ms", "30s", "UTC"]


def test_a_statement_over_its_limit(warehouse, given):
    with closing(connect(warehouse.loader)) as holder, holder, holder.cursor() as cursor:
        cursor.execute("lock table raw.run in access exclusive mode")
        with (
            closing(connect(warehouse.loader, lock_timeout_s=0.2)) as waiting,
            pytest.raises(WarehouseUnavailable, match="time limit"),
        ):
            Warehouse(waiting).runs.plan(given.run(), ())


def test_a_connection_that_is_lost(warehouse, given):
    with closing(connect(warehouse.loader)) as connection:
        pid = connection.info.backend_pid
        warehouse.server.execute(f"select pg_terminate_backend({pid})")
        with pytest.raises(WarehouseUnavailable, match="connection to PostgreSQL was lost"):
            Warehouse(connection).runs.load(given.batch(given.run()))
        with pytest.raises(WarehouseUnavailable):
            Warehouse(connection).runs.find()


def test_a_database_without_the_tables(empty):
    with (
        closing(connect(empty.reader)) as connection,
        pytest.raises(WarehouseRefused, match="migrations of this code have not been applied"),
    ):
        Warehouse(connection).runs.find()


@pytest.mark.parametrize("asked", ["select no_such_column from raw.run", "select triage.gone(1)"])
def test_a_database_that_is_older_than_the_code(warehouse, asked):
    with (
        closing(connect(warehouse.owner)) as connection,
        pytest.raises(WarehouseRefused, match="`nightbench db migrate` applies them"),
        reported("look"),
        connection.cursor() as cursor,
    ):
        cursor.execute(asked)


def test_the_reader_may_not_load(warehouse, given):
    with (
        closing(connect(warehouse.reader)) as connection,
        pytest.raises(WarehouseRefused, match="nightbench_loader"),
    ):
        Warehouse(connection).runs.plan(given.run(), ())
