"""What a backtest asks: which series there are, and what people made of their alerts."""

from __future__ import annotations

from typing import Any

from psycopg2.extras import RealDictCursor

from nightbench.warehouse.connection import Connection, reported
from nightbench.warehouse.statements import statement

Row = dict[str, Any]


class LabelBook:
    """Reads series and labels; every method raises `WarehouseUnavailable` where it is away."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def series(self, suite: str | None = None, cluster: str | None = None) -> list[Row]:
        """Series with nightly results: case_id, cluster, suite (the last), nights."""
        return self._rows("series", suite=suite, cluster=cluster)

    def moves(self) -> list[Row]:
        """Every move of an alert, oldest first: alert_id, what, to_state, by_whom, why."""
        return self._rows("alert_moves")

    def regressions(self) -> list[Row]:
        """Every alert on a fall: alert_id, case_id, cluster, opened_at and last_at of its runs."""
        return self._rows("regressions")

    def _rows(self, name: str, **parameters: Any) -> list[Row]:
        with (
            reported(f"read from the warehouse ({name})"),
            self._connection.cursor(cursor_factory=RealDictCursor) as cursor,
        ):
            cursor.execute(statement(name), parameters)
            return [dict(row) for row in cursor.fetchall()]
