"""The record of an experiment in the warehouse, kept by the process that measures it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from nightbench.core.budget import duration
from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.core.model.experiments import Experiment
from nightbench.experiments.experiment_spool import is_cancelled
from nightbench.spool import RunSpool
from nightbench.warehouse import Warehouse, opened
from nightbench.warehouse.connection import Connect

T = TypeVar("T")


@dataclass(frozen=True)
class Ended:
    """How a turn of an experiment ended."""

    state: str
    """`queued`: it continues in another turn."""
    why: str = ""
    result: Mapping[str, Any] | None = None


@dataclass
class ExperimentRecord:
    """The time that an experiment takes and its result, noted while it is measured.

    A process at a terminal measures without the warehouse as well; the spool has everything.
    """

    experiment: Experiment
    connect: Connect
    say: Callable[[str], None]
    ends_as: str = ""
    """State in which it is to stop: cancelled by a person, or queued because a night waits."""
    _began_s: float = field(default_factory=time.monotonic)
    _noted_s: float = 0.0

    @property
    def at_terminal(self) -> bool:
        """Whether no DAG run measures it."""
        return self.experiment.dag_run_id is None

    def whole_s(self) -> float:
        """Return the seconds since this turn began."""
        return time.monotonic() - self._began_s

    @property
    def is_spent(self) -> bool:
        """Whether its budget is used up."""
        budget_s = self.experiment.budget_s
        spent_s = self.experiment.spent_s + self.whole_s()
        return budget_s is not None and spent_s >= 0.95 * budget_s

    def begin(self) -> None:
        """Store an experiment of a terminal as running."""
        self._try(self._store)

    def note(self, result: Mapping[str, Any] | None = None) -> str | None:
        """Note the time taken and the result so far; returns why to stop, or None to continue."""

        def spend(warehouse: Warehouse) -> Mapping[str, Any] | None:
            whole_s, name = self.whole_s(), self.experiment.name
            given = (name, self.experiment.dag_run_id, whole_s - self._noted_s, result)
            row = warehouse.experiments.spend(*given)
            if row is None and self.at_terminal:
                self._store(warehouse)
                row = warehouse.experiments.spend(*given)
            self._noted_s = whole_s
            return row

        row = self._try(spend)
        if row is not None and row["cancelled_by"]:
            self.ends_as = "cancelled"
            return f"cancelled by {row['cancelled_by']}"
        if row is not None and row["is_awaited"]:
            self.ends_as = "queued"
            return "waits: a night's suspected regressions are measured first"
        return None

    def leave(self, ended: Ended) -> None:
        """Store how it ended, or that it waits again."""

        def store(warehouse: Warehouse) -> None:
            left_s = self.whole_s() - self._noted_s
            given = (self.experiment.name, self.experiment.dag_run_id, ended.state)
            more: dict[str, Any] = {"spent_s": left_s, "why": ended.why, "result": ended.result}
            if not warehouse.experiments.leave(*given, **more) and self.at_terminal:
                self._store(warehouse)
                warehouse.experiments.leave(*given, **more)

        if self.at_terminal:
            self._try(store)
        else:
            with opened(self.connect) as warehouse:
                store(warehouse)

    def finished(self, folder: RunSpool, stopped: str | None) -> tuple[str, str]:
        """Return the state of a measurement that was `stopped`, or is complete, and why."""
        if self.ends_as == "cancelled" or is_cancelled(folder):
            return "cancelled", stopped or ""
        if stopped is None:
            return "done", ""
        if self.is_spent and not self.ends_as:
            return "done", f"its budget of {duration(self.experiment.budget_s or 0.0)} is used up"
        # No DAG run continues an experiment that a user began at a terminal.
        return "cancelled" if self.at_terminal else "queued", stopped

    def _store(self, warehouse: Warehouse) -> None:
        names = "name kind request suite cluster alert_id run_id requested_by budget_s"
        row = {name: getattr(self.experiment, name) for name in names.split()}
        now = {"state": "running", "started_at": datetime.now(UTC), "why": ""}
        nothing = dict.fromkeys(("ended_at", "dag_run_id", "cancelled_by"))
        warehouse.experiments.store({**row, **now, **nothing})

    def _try(self, work: Callable[[Warehouse], T]) -> T | None:
        try:
            with opened(self.connect) as warehouse:
                return work(warehouse)
        except (WarehouseUnavailable, WarehouseRefused) as error:
            # At a terminal, an experiment works without a warehouse.
            if isinstance(error, WarehouseRefused) or not self.at_terminal:
                self.say(f"not in the warehouse, only in the spool: {error}")
        return None


def public_reason(error: UserError) -> str:
    """Return what a comment on a change may say of a failure: nothing of nodes and folders."""
    from nightbench.gang import EnvironmentUnavailable, NodeError
    from nightbench.gang.commits import CommitFailed

    if isinstance(error, CommitFailed):
        return f"{error.commit} could not be built"
    if isinstance(error, EnvironmentUnavailable):
        return "a build could not be installed on the nodes"
    if isinstance(error, NodeError):
        return "a node of the cluster failed"
    return "the measurement could not begin"
