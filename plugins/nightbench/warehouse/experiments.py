"""Experiments: the queue of requests for comparisons, and their results."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg2.errors

from nightbench.core.documents import stored_document
from nightbench.core.model.alerts import Confirmation
from nightbench.core.model.experiments import LIVE, NIGHTBENCH, Experiment, ExperimentKind
from nightbench.warehouse.alerts import LARGEST, MoveRefused
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.repository import Repository, Row, document

QUEUE = "queue of experiments"
"""Lock of processes that begin an experiment, and of `triage.request_experiment`."""

UNDECIDED = ("queued", "running")
"""States of confirmations that may still be measured."""

_REQUESTED = "kind request suite cluster alert_id run_id requested_by started_at"
"""Columns of an experiment that are stored once."""


class ExperimentRepository(Repository):
    """Experiments as the processes that measure them begin and end them."""

    def find(
        self,
        experiment_id: int | None = None,
        *,
        limit: int = 1000,
        **chosen: Any,
    ) -> list[Row]:
        """Rows of `marts.fct_experiment` with the fields of their requests, newest first.

        `chosen` are parameters of the statement `experiments`.
        """
        if experiment_id is not None and experiment_id > LARGEST:
            return []
        names = ("names", "kinds", "states", "requested_by", "alert_ids", "run_id")
        given = {**dict.fromkeys(names), **chosen}
        rows = self.read("experiments", experiment_id=experiment_id, max_rows=limit, **given)
        return [{**row["request"], **row} for row in rows]

    def get(self, name: str) -> Row | None:
        """One experiment as `find` returns it; None if there is none of this name."""
        return next(iter(self.find(names=[name])), None)

    def waiting(self, run_id: str | None = None) -> list[Row]:
        """Confirmations that a night's message waits for, in the order of their requests."""
        now = datetime.now(UTC)
        rows = self.find(run_id=run_id, kinds=[ExperimentKind.CONFIRM], states=UNDECIDED)
        return [
            row
            for row in reversed(rows)
            if row["requested_by"] == NIGHTBENCH and (row["until"] is None or row["until"] > now)
        ]

    def latest_confirmations(self, alert_ids: Sequence[int]) -> dict[int, Confirmation]:
        """The latest confirmation of each alert."""
        rows = self.read("alert_confirmations", alert_ids=alert_ids)
        read = {
            row["alert_id"]: stored_document(Confirmation, row["result"], row["name"])
            for row in rows
        }
        return {alert_id: found for alert_id, found in read.items() if found}

    def spent(self) -> dict[tuple[str, str], float]:
        """(cluster, person) -> seconds that experiments of the last 24 hours have measured."""
        rows = self.read("experiments_spent")
        return {(row["cluster"], row["requested_by"]): row["spent_s"] for row in rows}

    def add(self, experiment: Experiment) -> bool:
        """Add an experiment; False if a night has requested it before."""
        names = "name kind state suite cluster alert_id run_id requested_by priority until"
        row = {name: getattr(experiment, name) for name in f"{names} estimate_s why".split()}
        ended_at = None if experiment.state in LIVE else datetime.now(UTC)
        row |= {"request": document(experiment.request), "ended_at": ended_at}
        with self._transaction(f"request {experiment.name}"):
            return self._store("experiment", [row]) > 0

    def store(self, row: Mapping[str, Any]) -> None:
        """Store an experiment of a terminal as it is: new, or changed."""
        known = {k: document(v) if k in ("request", "result") and v else v for k, v in row.items()}
        with self._transaction(f"store {row['name']}"):
            self._store("experiment", [known], "name", keep=_REQUESTED)

    def begin(self, name: str, dag_run_id: str | None) -> bool:
        """Begin a queued experiment; False if it was begun, or another runs on its cluster."""
        with self._transaction(f"begin {name}"):
            self._lock_for_transaction(QUEUE)
            return self._write("begin_experiment", {"name": name, "dag_run_id": dag_run_id}) > 0

    def adopt(self, name: str, was: str, dag_run_id: str) -> bool:
        """Continue an experiment of a DAG run that has ended; False if another one does."""
        row = {"name": name, "was": was, "dag_run_id": dag_run_id}
        return self._do(f"continue {name}", "adopt_experiment", **row) > 0

    def spend(
        self,
        name: str,
        dag_run_id: str | None,
        seconds: float,
        result: Mapping[str, Any] | None = None,
    ) -> Row | None:
        """Note the time and the result so far of a running experiment.

        Returns who has `cancelled_by` it and whether a night `is_awaited`; None if it is measured
        by another process.
        """
        with self._transaction(f"note what {name} has taken"):
            rows = self._rows(
                "spend_experiment",
                name=name,
                dag_run_id=dag_run_id,
                spent_s=seconds,
                result=result and document(result),
            )
        return next(iter(rows), None)

    def leave(
        self,
        name: str,
        dag_run_id: str | None,
        state: str,
        *,
        spent_s: float,
        why: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> bool:
        """End a running experiment, or put it back (`queued`); False if another process has it."""
        row = {
            "name": name,
            "dag_run_id": dag_run_id,
            "state": state,
            "why": why,
            "result": None if result is None else document(result),
            "spent_s": spent_s,
        }
        return self._do(f"end {name}", "leave_experiment", **row) > 0

    def give_up_overdue(self, why: str) -> None:
        """Cancel experiments of nights that did not end in time, and those without a process."""
        with self._transaction("cancel what did not end in time"):
            self._rows("give_up_experiments", why=why)

    def runs_to_notify(self) -> list[str]:
        """Return the runs whose messages wait for suspects no longer."""
        return [row["run_id"] for row in self.read("runs_to_notify")]


class ExperimentDesk(Repository):
    """Requests and cancels experiments in the name of a person; each call is one transaction.

    Raises `MoveRefused` if there is no such experiment, or its state does not allow the change.
    """

    def __init__(self, connection: Connection, by: str) -> None:
        super().__init__(connection)
        self._by = by

    def request(self, row: Mapping[str, Any], origin: str | None = None) -> int:
        """Request an experiment and return its number; that of the same request if there is one.

        A row with `profile` has a profile made of it as well.
        """
        given = {key: value for key, value in row.items() if key != "profile"}
        profile = bool(row.get("profile"))
        asked = (self._by, origin, profile, document(given))
        return int(self._call("request_experiment", "request an experiment", *asked))

    def move(self, experiment_id: int, to: str, why: str = "") -> str:
        """Cancel an experiment, have it profiled, or queue or refuse a fork's; the state before."""
        if experiment_id > LARGEST:
            raise MoveRefused(f"There is no experiment {experiment_id}.")
        doing = f"change experiment {experiment_id}"
        return str(self._call("move_experiment", doing, experiment_id, to, self._by, why))

    def _call(self, name: str, doing: str, *given: Any) -> Any:
        try:
            with self._transaction(doing):
                return self._function(f"triage.{name}", *given)
        except psycopg2.errors.RaiseException as error:
            raise MoveRefused(f"Cannot {doing}: {error.diag.message_primary}.") from error
