"""Experiments: requests for comparisons of two builds, of people and of nights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, get_args

NIGHTBENCH = "nightbench"
"""`requested_by` of what no person has requested."""

PRIORITIES: Mapping[str, int] = {"low": -1, "normal": 0, "high": 1}
"""Priorities that a person may choose."""

NIGHT = 2
"""Priority of what a night requests."""

WAITING = ("held", "queued")
LIVE = (*WAITING, "running")
State = Literal["held", "queued", "running", "done", "failed", "refused", "cancelled"]
STATES: tuple[State, ...] = get_args(State)


class ExperimentKind(StrEnum):
    """The kinds of experiments."""

    COMPARE = "compare"
    """Two builds on the cases of a suite."""
    CONFIRM = "confirm"
    """A suspected regression of a night: the last good build and the night's."""
    BISECT = "bisect"
    """Versions of a framework line; `version_search` chooses the next comparison."""
    PROFILE = "profile"
    """One round of a comparison under a profiler."""
    REFERENCE = "reference"
    """A case of a night and its reference build."""


@dataclass(frozen=True)
class Experiment:
    """A request for one comparison or several, its place in the queue, and its result."""

    name: str
    """Its folder in the spool; names of further comparisons begin with it."""
    kind: ExperimentKind
    request: Mapping[str, Any]
    """Subject of the comparison, by kind."""
    suite: str
    cluster: str
    requested_by: str
    alert_id: int | None = None
    run_id: str | None = None
    state: str = "queued"
    priority: int = 0
    until: datetime | None = None
    """No launch begins that cannot end by then."""
    budget_s: float | None = None
    estimate_s: float | None = None
    spent_s: float = 0.0
    dag_run_id: str | None = None
    """DAG run that measures it; None: a process at a terminal."""
    why: str = ""
    result: Mapping[str, Any] | None = None
    experiment_id: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Experiment:
        """Return an experiment from a row of `marts.fct_experiment`."""
        known = {field.name: row[field.name] for field in fields(cls)}
        return cls(**{**known, "kind": ExperimentKind(row["kind"])})
