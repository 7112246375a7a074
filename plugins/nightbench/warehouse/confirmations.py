"""Suspected regressions that are measured again: what is asked for, and what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg2.extras import Json, RealDictCursor

from nightbench.core.model.alerts import Confirmation
from nightbench.warehouse import to_row
from nightbench.warehouse.connection import Connection, reported
from nightbench.warehouse.statements import statement

Row = dict[str, Any]

NIGHTBENCH = "nightbench"
"""Who asks where no person does."""

UNDECIDED = ("wanted", "running")
"""States of what may still be measured."""


class ConfirmationBook:
    """Stores and tells what is measured again; every call is one transaction.

    Every method raises `WarehouseUnavailable` where PostgreSQL is away and `WarehouseRefused`
    where it refuses the data; in both cases nothing of the call was stored.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # --- writing ----------------------------------------------------------------------------

    def ask(
        self,
        alert_id: int,
        run_id: str,
        comparison_id: str,
        detail: Mapping[str, Any],
        *,
        within_s: float | None,
        skipped: str | None = None,
        by: str = NIGHTBENCH,
    ) -> int | None:
        """Ask for an alert's suspect to be measured again; None where that was asked before.

        Args:
            alert_id: the alert.
            run_id: the night that is doubted.
            comparison_id: of its launches in the spool.
            detail: builds, levels, nodes, as `pipeline.suspects.Suspect` writes them.
            within_s: seconds that the night's message waits for it at most; None: nobody waits.
            skipped: why it is not measured at all.
            by: who asks; Nightbench asks once for an alert and run.
        """
        row = {
            "alert_id": alert_id,
            "run_id": run_id,
            "comparison_id": comparison_id,
            "detail": Json(dict(detail)),
            "within_s": within_s,
            "state": "skipped" if skipped else "wanted",
            "sentence": to_row.text(skipped) or "",
            "asked_by": by,
        }
        with reported(f"ask for a confirmation of alert {alert_id}"), self._connection:
            found = self._rows("store_confirmation", row)
        return int(found[0]["confirmation_id"]) if found else None

    def begin(self, confirmation_id: int) -> bool:
        """Say that somebody measures it; False where it is over."""
        with reported(f"begin confirmation {confirmation_id}"), self._connection:
            return self._change("begin_confirmation", {"confirmation_id": confirmation_id}) > 0

    def end(
        self, confirmation_id: int, found: Confirmation, detail: Mapping[str, Any] | None = None
    ) -> bool:
        """Store what came out; False where that was known already.

        Args:
            confirmation_id: which.
            found: the outcome.
            detail: laid over what was stored when it was asked for.
        """
        row = {
            "confirmation_id": confirmation_id,
            "outcome": str(found.outcome),
            "sentence": to_row.text(found.sentence),
            "ratio": to_row.number(found.ratio),
            "low": to_row.number(found.low),
            "high": to_row.number(found.high),
            "rounds": found.rounds,
            "detail": Json(dict(detail or {})),
        }
        with reported(f"store the outcome of confirmation {confirmation_id}"), self._connection:
            return self._change("end_confirmation", row) > 0

    def give_up(
        self, run_id: str, why: str, *, every: bool = False, apart_from: Sequence[int] = ()
    ) -> int:
        """Give up what Nightbench has asked for of a run; return how many.

        Args:
            run_id: the night.
            why: a sentence for those who are told of the night.
            every: also what is not overdue.
            apart_from: confirmations that go on.
        """
        row = {
            "run_id": run_id,
            "why": to_row.text(why),
            "every": every,
            "apart_from": list(apart_from),
        }
        with reported(f"give up the confirmations of run {run_id}"), self._connection:
            return self._change("skip_confirmations", row)

    # --- reading ----------------------------------------------------------------------------

    def suspects(self, run_id: str) -> list[Row]:
        """Regressions that a run has to tell of, largest first: alert_id, case_id, figures."""
        return self._read("suspects", run_id=run_id)

    def found(
        self,
        run_id: str | None = None,
        alert_id: int | None = None,
        confirmation_id: int | None = None,
        states: Sequence[str] | None = None,
    ) -> list[Row]:
        """What was asked for, with case_id, cluster and whether it is overdue; None: all."""
        return self._read(
            "confirmations",
            run_id=run_id,
            alert_id=alert_id,
            confirmation_id=confirmation_id,
            states=None if states is None else list(states),
        )

    def waiting(self, run_id: str | None = None) -> list[Row]:
        """What Nightbench has asked for and a message waits for, the largest fall first."""
        return [
            row
            for row in self.found(run_id=run_id, states=UNDECIDED)
            if row["asked_by"] == NIGHTBENCH and not row["is_overdue"]
        ]

    # ------------------------------------------------------------------------------------------

    def _read(self, name: str, **parameters: Any) -> list[Row]:
        with reported(f"read from the warehouse ({name})"):
            return self._rows(name, parameters)

    def _rows(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        with self._connection.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(statement(name), parameters)
            return [dict(row) for row in cursor.fetchall()]

    def _change(self, name: str, row: Mapping[str, Any]) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(statement(name), row)
            return int(cursor.rowcount)
