"""Connections that many short reads use one after another."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import psycopg2
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2
from sqlalchemy.pool import QueuePool

from nightbench.warehouse.connection import Connection

KEPT = 10
LIVES_S = 60
"""Then one is opened anew: its login may have changed."""


class ConnectionPool:
    """Gives connections, each to one thread at a time; opens as many as are needed.

    To log in by SCRAM costs more than most reads.
    """

    def __init__(self, opened: Callable[[], Connection]) -> None:
        untyped: Any = PGDialect_psycopg2
        self._pool = QueuePool(
            cast(Any, opened),
            pool_size=KEPT,
            max_overflow=-1,
            recycle=LIVES_S,
            pre_ping=True,
            dialect=untyped(dbapi=psycopg2),
        )

    @contextmanager
    def acquire(self) -> Iterator[Connection]:
        """Give a connection that answers; close one after an error.

        Raises:
            WarehouseUnavailable: there is none, and none can be opened.
        """
        lent = self._pool.connect()
        try:
            yield cast(Connection, lent.driver_connection)
        except BaseException:
            lent.invalidate()
            raise
        finally:
            lent.close()
