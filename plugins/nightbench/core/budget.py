"""Which cases a night has room for, and in which order. Pure.

The hours of cluster and suite and the suite's budget make the room. Cases go by priority, and
within a priority by age: who was never measured first, then who was measured longest ago. So
what one night leaves out comes first in the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nightbench.core.hours import Hours, opening
from nightbench.core.model import Protocol, Reason, ReasonCode, Suite

PRIORITY = 5
"""Of a case whose block says nothing."""

PREPARE_S = 30.0
"""Before the first launch: shipping and looking, where the environments are there already."""
LAUNCH_S = 45.0
"""Of each repeat, where nothing is known: from the launch to the first step, and the end."""
STEP_S = 1.0
"""Of each step, where nothing is known."""


@dataclass(frozen=True)
class CaseHistory:
    """What earlier runs say of a case on a cluster."""

    seconds: float | None = None
    """From the first launch to the end: the median of its last good runs."""
    repeat_s: float | None = None
    """The same for one repeat."""
    last: datetime | None = None
    """When a scheduled run last tried it, whatever came of it."""
    definition: str | None = None
    """Digest of the definition that the lengths hold for; None: whatever it was."""

    def of(self, definition: str) -> CaseHistory:
        """Return what it says of a case that is defined so: another protocol takes another time."""
        if self.definition in (None, definition):
            return self
        return CaseHistory(last=self.last)


@dataclass(frozen=True)
class Room:
    """The time that a night has."""

    start: datetime
    end: datetime | None
    """None: no limit."""
    why: str
    """What ends it, for messages; empty without a limit."""

    @property
    def seconds(self) -> float | None:
        """Its length; None without a limit."""
        return None if self.end is None else (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Candidate:
    """A case that would be measured, and what it takes."""

    case_id: str
    seconds: float
    """From preparing to the end."""
    guessed: bool = False
    """No run says how long it takes: `seconds` comes from protocol and time limits."""
    least_s: float = 0.0
    """With less left than this not even its first repeat is started."""
    priority: int = PRIORITY
    last: datetime | None = None
    holds: frozenset[str] = frozenset()
    """Nodes, or devices of nodes: cases that share one go one after another."""


@dataclass(frozen=True)
class Entry:
    """What a night means for a case."""

    case_id: str
    seconds: float
    guessed: bool
    start: datetime | None = None
    """When it is expected to begin; None where it is left out."""
    left_out: Reason | None = None
    """Why it is not measured; None where it is."""


@dataclass(frozen=True)
class NightPlan:
    """A night as it is planned."""

    room: Room
    entries: tuple[Entry, ...]
    """In the order in which they are measured, then those that are left out."""

    @property
    def left_out(self) -> dict[str, Reason]:
        """case_id -> why it is not measured."""
        return {e.case_id: e.left_out for e in self.entries if e.left_out is not None}

    @property
    def end(self) -> datetime:
        """When the last case is expected to end."""
        ends = [e.start + timedelta(seconds=e.seconds) for e in self.entries if e.start is not None]
        return max(ends, default=self.room.start)


def room(hours: Sequence[Hours], budget_s: float | None, at: datetime) -> Room | None:
    """Return the room of the night that goes on at a moment, or of the next one.

    Args:
        hours: of the cluster and of the suite, as far as they have any.
        budget_s: how long the night may take from its start on.
        at: with a time zone.

    Returns:
        None where the hours do not hold together in the days to come.
    """
    start, end, why = at.astimezone(UTC), None, ""
    if hours:
        span = opening(hours, at)
        if span is None:
            return None
        start, end = max(span.start, start), span.end
        why = f"the hours {' and '.join(dict.fromkeys(map(str, hours)))}"
    if budget_s is not None:
        spent = start + timedelta(seconds=budget_s)
        if end is None or spent < end:
            end, why = spent, f"the budget of {duration(budget_s)}"
    return Room(start, end, why)


def candidate(
    case_id: str, suite: Suite, past: CaseHistory, holds: Iterable[str], room: Room
) -> Candidate:
    """Estimate what a case takes: what it took before, else a guess from protocol and limits.

    The guess is `PREPARE_S` and, for each repeat, `LAUNCH_S` and `STEP_S` a step or the protocol's
    least time; no repeat takes longer than the suite's time limit allows. It never exceeds the
    room: a guess is no reason to leave a case out of every night.
    """
    least = past.repeat_s or suite.repeat_timeout_s
    seconds = past.seconds
    if seconds is None:
        seconds = suite.protocol.repeats * guess_repeat_s(suite.protocol, least)
        if room.seconds is not None:
            seconds = max(least, min(seconds, room.seconds - PREPARE_S))
    return Candidate(
        case_id=case_id,
        seconds=PREPARE_S + seconds,
        guessed=past.seconds is None,
        least_s=PREPARE_S + least,
        priority=suite.priorities.get(case_id, PRIORITY),
        last=past.last,
        holds=frozenset(holds),
    )


def guess_repeat_s(protocol: Protocol, limit_s: float) -> float:
    """Guess how long a repeat takes that was never run."""
    steps = (protocol.warmup_steps + protocol.measured_steps) * STEP_S
    return min(limit_s, LAUNCH_S + max(steps, protocol.min_seconds))


def fit(candidates: Sequence[Candidate], room: Room, lanes: int = 1) -> NightPlan:
    """Fill a night: whoever's turn it is takes the earliest place where it still ends in time.

    Args:
        candidates: in the order of the suite's file, which decides between equals.
        room: the time that there is; without a limit the order of the file stays.
        lanes: cases that may be measured at once.
    """
    free = [room.start] * max(1, lanes)
    held: dict[str, datetime] = {}
    inside: list[Entry] = []
    outside: list[Entry] = []
    for each in in_turn(candidates) if room.end else candidates:
        lane = min(range(len(free)), key=lambda number: free[number])
        start = max([free[lane], *(held.get(name, room.start) for name in each.holds)])
        reason = _refusal(each, room, start)
        if reason is not None:
            outside.append(_entry(each, left_out=reason))
            continue
        end = start + timedelta(seconds=each.seconds)
        free[lane] = end
        held.update(dict.fromkeys(each.holds, end))
        inside.append(_entry(each, start=start))
    return NightPlan(room, (*inside, *outside))


def _entry(case: Candidate, start: datetime | None = None, left_out: Reason | None = None) -> Entry:
    return Entry(case.case_id, case.seconds, case.guessed, start, left_out)


def in_turn(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return cases by priority, the stalest first within one."""
    first = datetime.min.replace(tzinfo=UTC)
    return sorted(candidates, key=lambda each: (-each.priority, each.last or first))


def _refusal(case: Candidate, room: Room, start: datetime) -> Reason | None:
    """Why a case does not fit into what is left of a night, or None where it does."""
    if room.end is None or room.seconds is None:
        return None
    left = (room.end - start).total_seconds()
    if case.seconds <= left:
        return None
    whole = f"{duration(room.seconds)} ({room.why})"
    if case.guessed and case.least_s > room.seconds:
        least = duration(case.least_s)
        return Reason(ReasonCode.TIME_UNKNOWN, observed=least, expected=whole)
    takes = f"about {duration(case.seconds)}"
    if case.seconds > room.seconds:
        return Reason(ReasonCode.NIGHT_TOO_SHORT, observed=takes, expected=whole)
    rest = duration(left) if left > 0 else "nothing"
    return Reason(
        ReasonCode.NIGHT_FULL,
        observed=f"{takes}{', a guess' if case.guessed else ''}",
        expected=f"{rest} before {clock(room.end)} ({room.why})",
    )


def clock(moment: datetime) -> str:
    """A moment for people."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """Return a length of time for people: `40 s`, `3 min 20 s`, `25 min`, `1 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(whole / 60), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
