"""Experiments that an alert leads to: confirmations of suspected regressions, and bisects."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg2.extras import Json

from nightbench.core.model.alerts import Confirmation, ConfirmationResult
from nightbench.warehouse.repository import Repository, Row

NIGHTBENCH = "nightbench"
"""`asked_by` of confirmations that no person has requested."""

_ASKED = "alert_id case_id cluster suite line good bad versions requested_by started_at"
_TESTED = "kind version against comparison_id wanted_rounds min_effect started_at"
"""What of a bisect and of its tests is stored once."""

UNDECIDED = ("wanted", "running")
"""States of confirmations that may still be measured."""


class ConfirmationRepository(Repository):
    """Confirmations: launches that measure the suspected regressions of a night again."""

    def request(
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
        """Request a confirmation; returns its number, or None where there was a request before.

        `detail` holds builds, levels and nodes, as `night.suspected_regressions` writes them. The
        night's message waits for it `within_s` seconds at most, or not at all (None). `skipped`
        says why it is not measured. Nightbench itself requests once for an alert and run.
        """
        with self._transaction(f"request a confirmation of alert {alert_id}"):
            found = self._rows(
                "store_confirmation",
                alert_id=alert_id,
                run_id=run_id,
                comparison_id=comparison_id,
                detail=Json(dict(detail)),
                within_s=within_s,
                state="skipped" if skipped else "wanted",
                sentence=skipped or "",
                asked_by=by,
            )
        return int(found[0]["confirmation_id"]) if found else None

    def begin(self, confirmation_id: int) -> bool:
        """Mark a confirmation as running; False where it is over."""
        doing = f"begin confirmation {confirmation_id}"
        return self._do(doing, "begin_confirmation", confirmation_id=confirmation_id) > 0

    def end(
        self, confirmation_id: int, found: Confirmation, detail: Mapping[str, Any] | None = None
    ) -> bool:
        """Store the outcome of a confirmation; False where it has one already.

        `detail` is laid over what was stored with the request.
        """
        row = vars(found) | {"detail": Json(dict(detail or {}))}
        doing = f"store the outcome of confirmation {confirmation_id}"
        return self._do(doing, "end_confirmation", confirmation_id=confirmation_id, **row) > 0

    def give_up(
        self, run_id: str, why: str, *, every: bool = False, apart_from: Sequence[int] = ()
    ) -> int:
        """Give up what Nightbench has requested for a run; returns how many confirmations.

        Only what is overdue, unless `every`. `why` is a sentence for the readers of the night's
        message.
        """
        doing, left = f"give up the confirmations of run {run_id}", tuple(apart_from)
        return self._do(
            doing, "skip_confirmations", run_id=run_id, why=why, every=every, apart_from=left
        )

    def find(
        self,
        run_id: str | None = None,
        alert_id: int | None = None,
        confirmation_id: int | None = None,
        states: Sequence[str] | None = None,
    ) -> list[Row]:
        """Confirmations with case_id, cluster and whether they are overdue; None: all."""
        return self.read(
            "confirmations",
            run_id=run_id,
            alert_id=alert_id,
            confirmation_id=confirmation_id,
            states=states,
        )

    def latest(self, alert_ids: Sequence[int]) -> dict[int, Confirmation]:
        """The latest confirmation of each alert."""
        found = {}
        for row in self.read("alert_confirmations", alert_ids=alert_ids):
            alert_id, outcome = row.pop("alert_id"), ConfirmationResult(row.pop("outcome"))
            found[alert_id] = Confirmation(outcome=outcome, **row)
        return found

    def waiting(self, run_id: str | None = None) -> list[Row]:
        """Requests of Nightbench that a message waits for, in their order."""
        return [
            row
            for row in self.find(run_id=run_id, states=UNDECIDED)
            if row["asked_by"] == NIGHTBENCH and not row["is_overdue"]
        ]


class BisectRepository(Repository):
    """BisectRepository: searches for the framework version behind an alert, with every test."""

    def store(self, bisect: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> None:
        """Store a bisect with all its tests so far, in one transaction.

        The rows are those of `raw.bisect` and `raw.bisect_step`; other fields are left out.
        """
        key = str(bisect["bisect_id"])
        row = {name: x for name, x in bisect.items() if name not in ("schema", "stopped", "steps")}
        with self._transaction(f"store bisect {key}"):
            self._store("bisect", [row], "bisect_id", keep=_ASKED)
            rows = [{**step, "bisect_id": key} for step in steps]
            self._store("bisect_step", rows, "bisect_id number", keep=_TESTED)

    def find(
        self, bisect_id: str | None = None, alert_id: int | None = None, limit: int = 20
    ) -> list[Row]:
        """Rows of `marts.fct_bisect`, newest first."""
        return self.read("bisects", bisect_id=bisect_id, alert_id=alert_id, max_rows=limit)
