"""The order of experiments on a cluster, and when each is expected to begin. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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
class Planned:
    """Where an experiment stands in the queue of its cluster."""

    experiment_id: int
    place: int | None
    """From 1; None if a budget is used up."""
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
        """Return which budget a person's next experiment would exceed; empty if none."""
        mine, all_s = self.spent.get(person, 0.0), sum(self.spent.values())
        if mine >= self.policy.person_s:
            return (
                f"the requester has measured {duration(mine)} in the last 24 hours, of the allowed "
                f"{duration(self.policy.person_s)} (compare.person of the cluster)"
            )
        if all_s >= self.policy.day_s:
            return (
                f"{duration(all_s)} were measured in the last 24 hours, of the allowed "
                f"{duration(self.policy.day_s)} (compare.day of the cluster)"
            )
        return ""

    def after(self, person: str, seconds: float) -> Shares:
        """Return the shares after a person has measured for so long."""
        return replace(self, spent={**self.spent, person: self.spent.get(person, 0.0) + seconds})


def ordered(
    waiting: Iterable[Mapping[str, Any]], shares: Shares, busy_s: float = 0.0
) -> list[Planned]:
    """Return all that wait on one cluster in the order in which they are measured.

    They are rows of `marts.fct_experiment`.

    The higher priority goes first; of one priority the person who has measured least in the last 24
    hours; of one person the oldest. Requests that are earlier in the queue count as measured. A
    profile follows its comparison at once. Requests above a budget come last and wait; no budget
    limits what a night requests. `busy_s` is what the running one still takes.
    """
    left, planned, at_s = list(waiting), list[Planned](), busy_s
    while able := [
        row for row in left if row["priority"] == NIGHT or not shares.refusal(row["requested_by"])
    ]:
        first = min(
            able,
            key=lambda row: (
                -row["priority"],
                row["kind"] != ExperimentKind.PROFILE,
                shares.spent.get(row["requested_by"], 0.0),
                row["queued_at"],
                row["experiment_id"],
            ),
        )
        planned.append(Planned(first["experiment_id"], len(planned) + 1, at_s))
        takes_s = GUESS_S if first["estimate_s"] is None else left_s(first)
        at_s += takes_s
        if first["priority"] < NIGHT:
            shares = shares.after(first["requested_by"], takes_s)
        left.remove(first)
    left.sort(key=lambda row: (-row["priority"], row["queued_at"], row["experiment_id"]))
    return planned + [
        Planned(row["experiment_id"], None, None, shares.refusal(row["requested_by"]))
        for row in left
    ]
