"""Connections that many short reads use one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from nightbench.warehouse.connection import Connection

KEPT = 10
LIVES_S = 60.0
"""Then one is opened anew: its login may have changed."""


class ConnectionPool:
    """Lends connections, each to one thread at a time; opens as many as are needed.

    To log in by SCRAM costs more than most reads.
    """

    def __init__(
        self, opened: Callable[[], Connection], clock: Callable[[], float] = monotonic
    ) -> None:
        self._opened = opened
        self._clock = clock
        self._lock = Lock()
        self._idle: list[tuple[float, Connection]] = []

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """Lend a connection that answers; one that something went wrong with is closed.

        Raises:
            WarehouseUnavailable: there is none, and none can be opened.
        """
        born_s, connection = self._take()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        is_clean = (
            not connection.closed and connection.get_transaction_status() == TRANSACTION_STATUS_IDLE
        )
        with self._lock:
            if is_clean and len(self._idle) < KEPT:
                self._idle.append((born_s, connection))
                return
        connection.close()

    def _take(self) -> tuple[float, Connection]:
        while True:
            with self._lock:
                if not self._idle:
                    break
                born_s, connection = self._idle.pop()
            if self._clock() - born_s < LIVES_S and _answers(connection):
                return born_s, connection
            connection.close()
        return self._clock(), self._opened()


def _answers(connection: Connection) -> bool:
    """Return whether the server still knows a connection."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
        connection.rollback()
    except psycopg2.Error:
        return False
    return True
