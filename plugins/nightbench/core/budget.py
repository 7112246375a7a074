"""Plans which cases fit into a night, and in which order. Pure.

The window of a night follows from the hours of cluster and suite and from the suite's budget.
Cases are ordered by priority; within a priority, cases that were never measured come first, then
those that were measured longest ago. So a case that one night leaves out comes first in the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nightbench.core.hours import Hours, opening
from nightbench.core.model import Build, PlannedPair, Protocol, Reason, ReasonCode, Suite

PRIORITY = 5
"""Default priority of a case."""

PREPARE_S = 30.0
"""Seconds before the first launch, for shipping and checks; environments exist already."""
LAUNCH_S = 45.0
"""Seconds of a repeat outside its steps, if no earlier run is known."""
STEP_S = 1.0
"""Seconds of a step, if no earlier run is known."""


@dataclass(frozen=True)
class CaseHistory:
    """Durations of a case on a cluster, as measured by earlier runs."""

    seconds: float | None = None
    """From the first launch to the end: median of the last good runs."""
    repeat_s: float | None = None
    """The same for one repeat."""
    last: datetime | None = None
    """When a scheduled run last tried the case, successfully or not."""
    definition: str | None = None
    """Digest of the definition that the durations belong to; None: any definition."""
    noise: float | None = None
    """Night-to-night noise: median of the relative steps from night to night."""
    reference: Build | None = None
    """The reference build that was last measured next to it."""

    def of(self, definition: str) -> CaseHistory:
        """Return the history without durations that belong to another definition."""
        if self.definition in (None, definition):
            return self
        return CaseHistory(last=self.last, noise=self.noise, reference=self.reference)


@dataclass(frozen=True)
class NightWindow:
    """The time span in which a night measures."""

    start: datetime
    end: datetime | None
    """None: no limit."""
    why: str
    """Limit of the window, for messages; empty without a limit."""

    @property
    def seconds(self) -> float | None:
        """Its length; None without a limit."""
        return None if self.end is None else (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Candidate:
    """A case with its expected duration."""

    case_id: str
    seconds: float
    """Expected duration, preparation included."""
    guessed: bool = False
    """True if no run was measured: `seconds` is estimated from protocol and time limits."""
    least_s: float = 0.0
    """Shortest remaining time in which its first repeat is started."""
    priority: int = PRIORITY
    last: datetime | None = None
    holds: frozenset[str] = frozenset()
    """Nodes, or devices of nodes; cases that share one are measured one after another."""


@dataclass(frozen=True)
class NightPlanEntry:
    """The place of a case in a night, or the reason why it has none."""

    case_id: str
    seconds: float
    guessed: bool
    start: datetime | None = None
    """When it is expected to begin; None if it is not measured."""
    left_out: Reason | None = None
    """Why the night has no room for it."""
    problem: str | None = None
    """Problem of the files that run it: it is unavailable, and takes no time."""


@dataclass(frozen=True)
class NightPlan:
    """The cases of a night in their order."""

    window: NightWindow
    entries: tuple[NightPlanEntry, ...]
    """Measured cases in their order, then cases that are left out or unavailable."""
    pairs: tuple[PlannedPair, ...] = ()
    """Measured cases that are also measured with a reference build, after all cases."""

    @property
    def left_out(self) -> dict[str, Reason]:
        """case_id -> why it is not measured."""
        return {e.case_id: e.left_out for e in self.entries if e.left_out is not None}

    @property
    def end(self) -> datetime:
        """When the last case is expected to end."""
        ends = [e.start + timedelta(seconds=e.seconds) for e in self.entries if e.start is not None]
        return max(ends, default=self.window.start)


def night_window(
    hours: Sequence[Hours], budget_s: float | None, at: datetime
) -> NightWindow | None:
    """Return the window of the current night, or of the next one.

    `budget_s` is how long it may take from its start on.

    Returns:
        None if the hours of cluster and suite do not overlap in the coming days.
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
    return NightWindow(start, end, why)


def candidate(
    case_id: str, suite: Suite, past: CaseHistory, holds: Iterable[str], window: NightWindow
) -> Candidate:
    """Return a case with its expected duration: measured before, else a guess from the protocol.

    The guess is `PREPARE_S` and, for each repeat, `LAUNCH_S` and `STEP_S` a step or the protocol's
    least time; no repeat takes longer than the suite's time limit allows. It never exceeds the
    window: a guess is no reason to leave a case out of every night.
    """
    least = past.repeat_s or suite.repeat_timeout_s
    seconds = past.seconds
    if seconds is None:
        seconds = suite.protocol.repeats * guess_repeat_s(suite.protocol, least)
        if window.seconds is not None:
            seconds = max(least, min(seconds, window.seconds - PREPARE_S))
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
    """Return the estimated duration of a repeat that was never run, in seconds."""
    steps = (protocol.warmup_steps + protocol.measured_steps) * STEP_S
    return min(limit_s, LAUNCH_S + max(steps, protocol.min_seconds))


def fit(candidates: Sequence[Candidate], window: NightWindow, lanes: int = 1) -> NightPlan:
    """Return the plan of a night: each case in turn gets the earliest start at which it fits.

    Candidates come in the order of the suite's file, which decides between equals and is kept where
    the window has no end. `lanes` is how many cases may be measured at once.
    """
    free = [window.start] * max(1, lanes)
    held: dict[str, datetime] = {}
    inside: list[NightPlanEntry] = []
    outside: list[NightPlanEntry] = []
    for each in by_priority_and_age(candidates) if window.end else candidates:
        lane = min(range(len(free)), key=lambda number: free[number])
        start = max([free[lane], *(held.get(name, window.start) for name in each.holds)])
        reason, known = _refusal(each, window, start), (each.case_id, each.seconds, each.guessed)
        if reason is not None:
            outside.append(NightPlanEntry(*known, left_out=reason))
            continue
        end = start + timedelta(seconds=each.seconds)
        free[lane] = end
        held.update(dict.fromkeys(each.holds, end))
        inside.append(NightPlanEntry(*known, start=start))
    return NightPlan(window, (*inside, *outside))


def by_priority_and_age(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return cases by priority; within one, those measured longest ago first."""
    first = datetime.min.replace(tzinfo=UTC)
    return sorted(candidates, key=lambda each: (-each.priority, each.last or first))


def _refusal(case: Candidate, window: NightWindow, start: datetime) -> Reason | None:
    """Return why a case does not fit into the rest of a night; None if it fits."""
    if window.end is None or window.seconds is None:
        return None
    left = (window.end - start).total_seconds()
    if case.seconds <= left:
        return None
    whole = f"{duration(window.seconds)} ({window.why})"
    if case.guessed and case.least_s > window.seconds:
        least = duration(case.least_s)
        return Reason(ReasonCode.TIME_UNKNOWN, observed=least, expected=whole)
    takes = f"about {duration(case.seconds)}"
    if case.seconds > window.seconds:
        return Reason(ReasonCode.NIGHT_TOO_SHORT, observed=takes, expected=whole)
    rest = duration(left) if left > 0 else "nothing"
    return Reason(
        ReasonCode.NIGHT_FULL,
        observed=f"{takes}{', estimated' if case.guessed else ''}",
        expected=f"{rest} until {clock(window.end)} ({window.why})",
    )


def clock(moment: datetime) -> str:
    """Return a time as text in UTC, to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """Return a duration as text: `40 s`, `3 min 20 s`, `25 min`, `1 h 20 min`."""
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
