"""Rounds of two launches: which build comes next, and which rounds count. Pure.

The order alternates, AB BA AB …, so that a steady drift falls out. A round of which one half was
disturbed or failed is dropped as a whole and measured again, in the same order, within a budget.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SPARE_ROUNDS = 3
"""Dropped rounds of a case that are measured again."""

FAILURES_IN_A_ROW = 2
"""Rounds dropped in a row because a launch failed: another would be no use."""


class Side(StrEnum):
    """Which build."""

    A = "a"
    B = "b"


@dataclass(frozen=True)
class Half:
    """One launch, in the order of launches."""

    round: int
    """From 1."""
    side: Side
    status: str
    """ok, disturbed, failed, or interrupted: ended by whoever measures, counted against nobody."""
    throughput: float | None = None
    """Units of work per second; None unless ok."""
    reason: str | None = None


@dataclass(frozen=True)
class Schedule:
    """In which order the halves of a case are launched."""

    rounds: int
    first: Side
    """Which build begins the first round; each later round begins with the other one."""
    spare: int = SPARE_ROUNDS

    @classmethod
    def seeded(cls, rounds: int, seed: int, case_id: str, spare: int = SPARE_ROUNDS) -> Schedule:
        """Let chance say which build begins, the same for the same seed and case."""
        first = random.Random(f"{seed}/{case_id}").choice(list(Side))
        return cls(rounds, first, spare)

    def order(self, number: int) -> tuple[Side, Side]:
        """The sides of a round, from 1, in the order of their launches."""
        odd = number % 2 == 1
        first = self.first if odd else other(self.first)
        return first, other(first)


def other(side: Side) -> Side:
    """The other build."""
    return Side.B if side is Side.A else Side.A


@dataclass(frozen=True)
class Pair:
    """A round that counts."""

    round: int
    order: tuple[Side, Side]
    a: float
    """Throughput in units of work per second."""
    b: float

    @property
    def ratio(self) -> float:
        """B over A."""
        return self.b / self.a


@dataclass(frozen=True)
class Progress:
    """Where a case stands after some launches."""

    pairs: tuple[Pair, ...]
    next: tuple[int, Side] | None
    """Round and build of the next launch; None where there is none."""
    dropped: tuple[Half, ...] = ()
    """The halves because of which rounds were dropped."""
    stopped: str | None = None
    """Why there are fewer rounds than were asked for."""


def progress(schedule: Schedule, halves: Sequence[Half]) -> Progress:
    """Say what the launches so far amount to, and which comes next.

    Whoever reads the same launches decides the same, so that a measurement can be taken up again
    by another process.

    Raises:
        ValueError: the launches are not those of the schedule.
    """
    pairs: list[Pair] = []
    dropped: list[Half] = []
    failing = 0
    begun: dict[Side, float] = {}
    for half in halves:
        number = len(pairs) + 1
        sides = schedule.order(number)
        expected = sides[len(begun)]
        if (half.round, half.side) != (number, expected):
            raise ValueError(
                f"found a launch of {half.side} in round {half.round}; expected {expected} in "
                f"round {number}"
            )
        if half.status != "ok" or half.throughput is None:
            dropped.append(half)
            failing = failing + 1 if half.status == "failed" else failing
            begun = {}
            continue
        begun[half.side] = half.throughput
        if len(begun) == len(Side):
            pairs.append(Pair(number, sides, begun[Side.A], begun[Side.B]))
            begun, failing = {}, 0
    stopped = _stopped(schedule, dropped, failing)
    if len(pairs) >= schedule.rounds:
        return Progress(tuple(pairs), None, tuple(dropped))
    if stopped is not None:
        return Progress(tuple(pairs), None, tuple(dropped), stopped)
    number = len(pairs) + 1
    side = schedule.order(number)[len(begun)]
    return Progress(tuple(pairs), (number, side), tuple(dropped))


def _stopped(schedule: Schedule, dropped: Sequence[Half], failing: int) -> str | None:
    if failing >= FAILURES_IN_A_ROW:
        last = [half for half in dropped if half.status == "failed"][-failing:]
        builds = " and ".join(sorted({half.side.upper() for half in last}))
        return f"launches of {builds} failed {failing} times in a row, the last: {last[-1].reason}"
    counted = [half for half in dropped if half.status != "interrupted"]
    if len(counted) > schedule.spare:
        return (
            f"{len(counted)} rounds were dropped, more than the budget of {schedule.spare}; the "
            f"last: build {counted[-1].side.upper()} {counted[-1].status}: {counted[-1].reason}"
        )
    return None
