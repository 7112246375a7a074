"""The order of experiments on a cluster, and when each is expected to begin. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from nightbench.core.budget import duration
from nightbench.core.model import ComparePolicy
from nightbench.core.model.experiments import NIGHT, ExperimentKind

GUESS_S = 1800.0
"""Duration of an experiment without an estimate: enough to spread a queue, and nothing else."""


def left_s(row: Mapping[str, Any]) -> float:
    """Return the seconds that an experiment is still expected to take."""
    return max(0.0, float((row["estimate_s"] or 0.0) - row["spent_s"]))


@dataclass(frozen=True)
class Waiting:
    """An experiment that waits."""

    experiment_id: int
    person: str
    priority: int
    queued_at: datetime
    estimate_s: float | None = None
    """Seconds that it still needs."""
    follows: bool = False
    """It is the profile of a comparison that has ended."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Waiting:
        """From a row of `marts.fct_experiment`."""
        takes_s = None if row["estimate_s"] is None else left_s(row)
        person = row["requested_by"]
        follows = row["kind"] == ExperimentKind.PROFILE
        number, queued_at = row["experiment_id"], row["queued_at"]
        return cls(number, person, row["priority"], queued_at, takes_s, follows)


@dataclass(frozen=True)
class Planned:
    """Where an experiment stands in the queue of its cluster."""

    experiment_id: int
    place: int | None
    """From 1; None where a budget is used up."""
    starts_in_s: float | None
    """Expected seconds of the experiments before it; None if a budget is used up."""
    why: str = ""
    """Reason why it waits; empty: its turn."""


@dataclass(frozen=True)
class Shares:
    """The measurements of the last 24 hours."""

    policy: ComparePolicy
    spent: Mapping[str, float] = field(default_factory=dict)
    """Person -> seconds."""

    def refusal(self, person: str) -> str:
        """Return which budget a person's next experiment would exceed; empty where none."""
        mine, all_s = self.spent.get(person, 0.0), sum(self.spent.values())
        if mine >= self.policy.person_s:
            return (
                f"the requester has measured {duration(mine)} in the last 24 hours, of "
                f"{duration(self.policy.person_s)} (compare.person of the cluster)"
            )
        if all_s >= self.policy.day_s:
            return (
                f"{duration(all_s)} were measured in the last 24 hours, of "
                f"{duration(self.policy.day_s)} (compare.day of the cluster)"
            )
        return ""

    def after(self, person: str, seconds: float) -> Shares:
        """Return the shares after a person has measured for so long."""
        return replace(self, spent={**self.spent, person: self.spent.get(person, 0.0) + seconds})


def ordered(waiting: Sequence[Waiting], shares: Shares, busy_s: float = 0.0) -> list[Planned]:
    """Return all that wait on one cluster in the order in which they are measured.

    The higher priority goes first; of one priority the person who has measured least in the last 24
    hours, with what stands before in the queue; of one person the oldest. A profile follows its
    comparison at once. What exceeds a budget comes last and waits; no budget limits what a night
    requests. `busy_s` is what the running one still takes.
    """
    left, planned, at_s = list(waiting), list[Planned](), busy_s
    while able := [
        each for each in left if each.priority == NIGHT or not shares.refusal(each.person)
    ]:
        first = min(
            able,
            key=lambda each: (
                -each.priority,
                not each.follows,
                shares.spent.get(each.person, 0.0),
                each.queued_at,
                each.experiment_id,
            ),
        )
        planned.append(Planned(first.experiment_id, len(planned) + 1, at_s))
        takes_s = GUESS_S if first.estimate_s is None else first.estimate_s
        at_s += takes_s
        if first.priority < NIGHT:
            shares = shares.after(first.person, takes_s)
        left.remove(first)
    rest = sorted(left, key=lambda each: (-each.priority, each.queued_at, each.experiment_id))
    return planned + [
        Planned(each.experiment_id, None, None, shares.refusal(each.person)) for each in rest
    ]
