"""Rounds of two launches: which build is launched next, and which rounds count. Pure.

The order alternates, AB BA AB …, so that a steady drift cancels out. A round of which one launch
was disturbed or failed is dropped as a whole and measured again, in the same order, within a
budget.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nightbench.core.losses import LaunchLosses
from nightbench.core.model import Reason
from nightbench.core.sentences import sentences

SPARE_ROUNDS = 3
"""Dropped rounds of a case that are measured again."""

FAILURES_IN_A_ROW = 2
"""After so many rounds dropped in a row because a launch failed, a case ends."""


class Arm(StrEnum):
    """One of the two builds of a comparison."""

    A = "a"
    B = "b"

    @property
    def other(self) -> Arm:
        """The other build."""
        return Arm.B if self is Arm.A else Arm.A


@dataclass(frozen=True)
class Launch:
    """A launch that has ended."""

    round: int
    """From 1."""
    arm: Arm
    status: str
    """ok, disturbed, failed, or interrupted, which counts against no build."""
    throughput: float | None = None
    """Units of work per second; None unless ok."""
    reasons: tuple[Reason, ...] = ()
    losses: LaunchLosses | None = None

    @property
    def why(self) -> str:
        """The reasons for people."""
        return sentences(self.reasons)


@dataclass(frozen=True)
class LaunchOrder:
    """The order in which the builds of a case are launched."""

    rounds: int
    first: Arm
    """The build that begins the first round; each later round begins with the other one."""
    spare: int = SPARE_ROUNDS

    @classmethod
    def seeded(cls, rounds: int, seed: int, case_id: str) -> LaunchOrder:
        """Return an order with a random first build, the same for the same seed and case."""
        first = random.Random(f"{seed}/{case_id}").choice(list(Arm))
        return cls(rounds, first)

    def arms(self, number: int) -> tuple[Arm, Arm]:
        """Return the builds of a round, from 1, in the order of their launches."""
        first = self.first if number % 2 == 1 else self.first.other
        return first, first.other


@dataclass(frozen=True)
class Round:
    """A round that counts."""

    round: int
    order: tuple[Arm, Arm]
    a: float
    """Throughput in units of work per second."""
    b: float

    @property
    def ratio(self) -> float:
        """B over A."""
        return self.b / self.a


@dataclass(frozen=True)
class RoundsProgress:
    """The rounds of a case after some launches."""

    rounds: tuple[Round, ...]
    next: tuple[int, Arm] | None
    """Round and build of the next launch; None if there is none."""
    dropped: tuple[Launch, ...] = ()
    """The launches because of which rounds were dropped."""
    stopped: str | None = None
    """Why there are fewer rounds than planned."""


def progress(order: LaunchOrder, launches: Sequence[Launch]) -> RoundsProgress:
    """Return the rounds that the launches so far make, and which launch comes next.

    It depends on the launches alone, so that another process can continue a measurement.

    Raises:
        ValueError: the launches are not in this order.
    """
    rounds: list[Round] = []
    dropped: list[Launch] = []
    failures = 0
    open_round: dict[Arm, float] = {}
    for launch in launches:
        number = len(rounds) + 1
        arms = order.arms(number)
        expected = arms[len(open_round)]
        if (launch.round, launch.arm) != (number, expected):
            raise ValueError(
                f"found a launch of {launch.arm} in round {launch.round}; expected {expected} in "
                f"round {number}"
            )
        if launch.status != "ok" or launch.throughput is None:
            dropped.append(launch)
            failures += launch.status == "failed"
            open_round = {}
            continue
        open_round[launch.arm] = launch.throughput
        if len(open_round) == len(Arm):
            rounds.append(Round(number, arms, open_round[Arm.A], open_round[Arm.B]))
            open_round, failures = {}, 0
    if len(rounds) >= order.rounds:
        return RoundsProgress(tuple(rounds), None, tuple(dropped))
    stopped = _stopped(order, dropped, failures)
    if stopped is not None:
        return RoundsProgress(tuple(rounds), None, tuple(dropped), stopped)
    number = len(rounds) + 1
    arm = order.arms(number)[len(open_round)]
    return RoundsProgress(tuple(rounds), (number, arm), tuple(dropped))


def _stopped(order: LaunchOrder, dropped: Sequence[Launch], failures: int) -> str | None:
    if failures >= FAILURES_IN_A_ROW:
        last = [launch for launch in dropped if launch.status == "failed"][-failures:]
        builds = " and ".join(sorted({launch.arm.upper() for launch in last}))
        return f"launches of {builds} failed {failures} times in a row; the last: {last[-1].why}"
    counted = [launch for launch in dropped if launch.status != "interrupted"]
    if len(counted) > order.spare:
        return (
            f"{len(counted)} rounds were dropped, more than the allowed {order.spare}; the last "
            f"round: build {counted[-1].arm.upper()} {counted[-1].status}: {counted[-1].why}"
        )
    return None
