"""What people do with alerts. Which moves are allowed is said by the functions of schema triage."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg2.errors

from nightbench.warehouse.connection import Connection, WarehouseRefused
from nightbench.warehouse.repository import Repository


class MoveRefused(WarehouseRefused):
    """There is no such alert, or a function of schema triage says that the move is not allowed."""


REASONS = ("false_alarm", "intended", "wont_fix")
"""Why an alert is dismissed."""

LARGEST = 2**63 - 1
"""Number of an alert: a bigint."""


class Triage(Repository):
    """Moves alerts in the name of a person; each call is one transaction.

    Every method returns the state before, and raises `MoveRefused` where there is no such alert or
    the move is not allowed, `WarehouseUnavailable` where the warehouse is away.
    """

    def __init__(self, connection: Connection, by: str) -> None:
        super().__init__(connection)
        self._by = by

    def move(self, alert_id: int, to: str, why: str = "", reason: str | None = None) -> str:
        """Make an alert acknowledged, resolved, dismissed (with one of `REASONS`), or open."""
        return self._call("move_alert", alert_id, why, to_state=to, reason=reason)

    def snooze(self, alert_id: int, until: datetime, why: str = "") -> str:
        """Send no message of a live alert before a time (with its zone)."""
        return self._call("snooze_alert", alert_id, why, until=until)

    def assign(self, alert_id: int, owner: str, why: str = "") -> str:
        """Say whose a live alert is; an empty name: nobody's."""
        return self._call("assign_alert", alert_id, why, owner=owner)

    def _call(self, name: str, alert_id: int, why: str, **given: Any) -> str:
        if not -LARGEST <= alert_id <= LARGEST:
            # PostgreSQL would say that it knows no function for such a number.
            raise MoveRefused(_refusal(alert_id, f"there is no alert {alert_id}"))
        try:
            with self._transaction(f"change alert {alert_id}"):
                (row,) = self._rows(name, alert_id=alert_id, by_whom=self._by, why=why, **given)
        except psycopg2.errors.RaiseException as error:
            raise MoveRefused(_refusal(alert_id, error.diag.message_primary)) from error
        return str(row["was"])


def _refusal(alert_id: int, said: str | None) -> str:
    return (
        f"Cannot change alert {alert_id}: {said}. "
        "`nightbench alert list --all` shows what there is."
    )
