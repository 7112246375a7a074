"""The base of all repositories: named statements on one connection, rows as dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nightbench.warehouse.connection import Connection, reported
from nightbench.warehouse.statements import queries

Row = dict[str, Any]


class Repository:
    """Reads and writes one aggregate. Storing the same thing again changes nothing.

    Every method raises `WarehouseUnavailable` where PostgreSQL is away and `WarehouseRefused`
    where it refuses the data; in both cases nothing of the call was stored.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[None]:
        """One transaction; `doing` completes "Cannot ..." in the message of a database error."""
        with reported(doing), self._connection:
            yield

    def _read(self, name: str, /, **parameters: Any) -> list[Row]:
        """Rows of a statement, outside of a transaction."""
        with reported(f"read from the warehouse ({name})"):
            return self._rows(name, **parameters)

    def _first(self, name: str, /, **parameters: Any) -> Row | None:
        """First row of a statement, outside of a transaction; None where there is none."""
        return next(iter(self._read(name, **parameters)), None)

    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """Rows of a statement, inside of a transaction."""
        run = getattr(queries(), name)
        return [dict(row) for row in run(self._connection, **parameters)]

    def _lock_for_transaction(self, name: str) -> None:
        """Lock a name until the transaction ends."""
        self._rows("lock_for_transaction", lock_name=name)

    def _try_session_lock(self, name: str) -> bool:
        """Lock a name until the connection is closed; False where another session has it."""
        return bool(self._read("try_session_lock", lock_name=name)[0]["is_locked"])

    def _write(self, name: str, /, *rows: Mapping[str, Any]) -> int:
        """Run a writing statement for each row, inside of a transaction; rows that changed."""
        run = getattr(queries(), name)
        changed: int = run(self._connection, rows)
        return changed
