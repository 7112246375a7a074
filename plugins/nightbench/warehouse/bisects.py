"""Bisects in the warehouse: what was asked, every test, what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg2.extras import RealDictCursor

from nightbench.warehouse import to_row
from nightbench.warehouse.connection import Connection, reported
from nightbench.warehouse.statements import statement

Row = dict[str, Any]


class Bisects:
    """Stores and tells of bisects. Storing the same thing again changes nothing.

    Every method raises `WarehouseUnavailable` where PostgreSQL is away and `WarehouseRefused`
    where it refuses the data; in both cases nothing of the call was stored.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def store(self, bisect: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> None:
        """Store a bisect as it stands, with all its tests, in one transaction.

        Args:
            bisect: the columns of `raw.bisect`.
            steps: those of `raw.bisect_step`, without the bisect's id.
        """
        key = str(bisect["bisect_id"])
        with (
            reported(f"store bisect {key}"),
            self._connection,
            self._connection.cursor() as cursor,
        ):
            said = {"sentence": to_row.text(bisect["sentence"])}
            cursor.execute(statement("store_bisect"), {**bisect, **said})
            for step in steps:
                row = {**step, "bisect_id": key, "why": to_row.text(step["why"])}
                cursor.execute(statement("store_bisect_step"), row)

    def find(
        self, bisect_id: str | None = None, alert_id: int | None = None, limit: int = 20
    ) -> list[Row]:
        """Rows of `marts.fct_bisect`, newest first."""
        return self._rows("bisects", bisect_id=bisect_id, alert_id=alert_id, max_rows=limit)

    def steps(self, bisect_id: str) -> list[Row]:
        """Rows of `marts.fct_bisect_step`, in the order of the tests."""
        return self._rows("bisect_steps", bisect_id=bisect_id)

    def version_change(self, alert_id: int) -> Row | None:
        """The change of version before an alert was opened; None where there was none.

        Returns:
            suite, good, bad (versions), good_run_id, bad_run_id.
        """
        rows = self._rows("version_change", alert_id=alert_id)
        return rows[0] if rows else None

    def _rows(self, name: str, **parameters: Any) -> list[Row]:
        with (
            reported(f"read from the warehouse ({name})"),
            self._connection.cursor(cursor_factory=RealDictCursor) as cursor,
        ):
            cursor.execute(statement(name), parameters)
            return [dict(row) for row in cursor.fetchall()]
