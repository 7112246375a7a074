"""Judges a whole history: its changes as they are detected night by night, and its drift."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.changes import FEWEST, LOOK_BACK, TAIL, Change, changes_of_last_night
from nightbench.detection.control_shift import ControlShift, control_shift
from nightbench.detection.detector import new_state_odds, segments
from nightbench.detection.drift import Drift, drift_of
from nightbench.detection.incremental import find_changes
from nightbench.detection.power import smallest_slowdown
from nightbench.detection.process_pool import spread
from nightbench.detection.series import Series, series_of
from nightbench.detection.verdict_sentences import controls, level_change

History = tuple[str, Sequence[HistoryPoint]]
"""Name and nights of a series."""

ENOUGH = 10
"""Nights of the present segment below which the status is `insufficient_data`."""


@dataclass(frozen=True)
class HistoryChange:
    """A change with the nights around it; `change` and `baseline` refer to the values as given."""

    kind: str
    """regressed or improved."""
    index: int
    """Index of the first night at the new level, among all nights of the series."""
    first_bad: HistoryPoint
    """First night at the new level, also of an improvement."""
    last_good: HistoryPoint
    """Last measured night at the old one."""
    detected: HistoryPoint
    """Night with which it was detected."""
    change: float
    low: float
    high: float
    baseline: float
    score: float
    sentence: str
    control: ControlShift | None = None
    """Shift of the control measurements of the same nights; None if unknown."""


@dataclass(frozen=True)
class Segment:
    """A stretch of nights that begins with another fingerprint and is judged separately."""

    first: HistoryPoint
    fingerprint: str
    """Fingerprint of the node; with the definition of the work in a history of several works."""
    step: HistoryChange | None
    """The step of the level at its beginning, if one is detected. It is no change of the
    series, since it may be intended."""


@dataclass(frozen=True)
class HistoryReport:
    """Result of judging a history."""

    series: str
    nights: int
    """Rows of the series."""
    missing: int
    """Rows without a value."""
    absent: int | None
    """Nights between the first row and the last that have no row; None unless rows come nightly."""
    status: str
    """insufficient_data, regressed or improved (a change within 30 nights), drift, or ok."""
    changes: tuple[HistoryChange, ...]
    segments: tuple[Segment, ...]
    """Those after the first."""
    drift: Drift | None
    drift_since: HistoryPoint | None
    """First night of the drift."""
    smallest_slowdown: float | None


def judge_histories(
    histories: Sequence[History], lower_is_better: bool = False, min_change: float = 0.0
) -> Iterator[HistoryReport]:
    """Yield the report of `judge_history` on each history, in their order, as soon as it is judged.

    Raises:
        UserError: a process was ended from outside.
    """
    judge = partial(_judge_named, lower_is_better=lower_is_better, min_change=min_change)
    return spread(judge, histories, [len(nights) for _, nights in histories])


def judge_history(
    name: str,
    nights: Sequence[HistoryPoint],
    lower_is_better: bool = False,
    min_change: float = 0.0,
) -> HistoryReport:
    """Judge a history night by night, as if each night had been judged when it was measured.

    Args:
        name: of the series.
        nights: oldest first; nights with the value NaN are missing ones.
        lower_is_better: for times and sizes: an increase is the regression.
        min_change: smallest relative change that is reported.
    """
    usable = [i for i, night in enumerate(nights) if not math.isnan(night.value)]
    points = [nights[i] for i in usable]
    groups = segments(points)
    last = max(groups, key=lambda group: group[-1:])
    since = 0

    def series_at(members: Sequence[int]) -> Series:
        return series_of([points[i] for i in members], lower_is_better=lower_is_better)

    def reported(change: Change, members: Sequence[int]) -> HistoryChange:
        own = [points[i] for i in members]
        return _history_change(change, own, usable[members[change.first]], lower_is_better)

    def step_at(start: int, group: Sequence[int]) -> HistoryChange | None:
        before = next(other for other in groups if start - 1 in other)
        joined = [*(i for i in before if i < start), *group]
        step = _step_at_boundary(series_at(joined), points, groups, joined, start)
        return reported(step, joined) if step and step.may_reach(min_change) else None

    works = {point.definition_digest for point in points} - {None}

    def state_at(start: int) -> str:
        fingerprint, work = _state(points[start])
        return " ".join(filter(None, (fingerprint, work if len(works) > 1 else None)))

    found: list[HistoryChange] = []
    for group in groups:
        changes = find_changes(series_at(group), min_change)
        found += [reported(change, group) for change in changes]
        if group is last:
            since = max([0, *(change.first for change in changes)])
    found.sort(key=lambda each: each.index)
    present = series_at(last)
    drift = drift_of(present) or (drift_of(present, since) if since else None)
    if drift and lower_is_better:
        drift = drift.inverted()
    return HistoryReport(
        series=name,
        nights=len(nights),
        missing=len(nights) - len(usable),
        absent=_absent(nights),
        status=_status(found, drift, len(present), len(nights)),
        changes=tuple(found),
        segments=tuple(
            Segment(points[own[0]], state_at(own[0]), step_at(own[0], own)) for own in groups[1:]
        ),
        drift=drift,
        drift_since=points[last[drift.first]] if drift else None,
        smallest_slowdown=smallest_slowdown(present, min_change),
    )


def _judge_named(history: History, lower_is_better: bool, min_change: float) -> HistoryReport:
    return judge_history(*history, lower_is_better, min_change)


def _state(night: HistoryPoint) -> tuple[str | None, str | None]:
    return night.fingerprint_id, night.definition_digest


def _absent(nights: Sequence[HistoryPoint]) -> int | None:
    """Return how many nights have no row; None unless most rows are a day apart."""
    days = np.diff([night.at.timestamp() for night in nights]) / 86400
    if np.count_nonzero(np.abs(days - 1) < 0.25) <= len(days) / 2:
        return None
    return int(np.maximum(np.round(days) - 1, 0).sum())


def _step_at_boundary(
    series: Series,
    points: Sequence[HistoryPoint],
    groups: Sequence[Sequence[int]],
    joined: Sequence[int],
    start: int,
) -> Change | None:
    """Return the step at the beginning of a group; None without one. Its nights index `joined`.

    These are the nights before the group and its own, from `start` on.
    """
    first = joined.index(start)
    if first < ENOUGH:
        return None
    # Nights between without a fingerprint may belong to either.
    earliest = first
    while not any(_state(points[joined[earliest - 1]])):
        earliest -= 1
    segment_of = {i: str(number) for number, nights in enumerate(groups) for i in nights}
    for night in range(first + 1, min(first + TAIL, len(joined))):
        odds = np.zeros(night + 1)
        oldest = max(0, joined[night] + 1 - LOOK_BACK)
        if start >= oldest:
            states = [segment_of[i] for i in range(oldest, joined[night] + 1)]
            odds[first] = new_state_odds(states)[start - oldest]
        for change in changes_of_last_night(series.part(0, night + 1), known=odds):
            if earliest <= change.first <= first:
                return change
    return None


def _history_change(
    change: Change, points: Sequence[HistoryPoint], index: int, lower_is_better: bool
) -> HistoryChange:
    """Return a change of some nights; `index` is that of its first night in the history."""
    first, detected = change.first, points[change.detected]
    figures = [point.control for point in points[: change.detected + 1]]
    control = control_shift(figures, first, math.log1p(change.change))
    kind = "regressed" if change.is_drop else "improved"
    if lower_is_better:
        change = change.inverted()
        if control:
            control = replace(control, remains=1 / (1 + control.remains) - 1)
    said = level_change(change, points[first].at) + controls(control)
    return HistoryChange(
        kind=kind,
        index=index,
        first_bad=points[first],
        last_good=points[first - 1],
        detected=detected,
        change=change.change,
        low=change.low,
        high=change.high,
        baseline=change.baseline,
        score=change.score,
        sentence=f"{said} Detected on {detected.at:%Y-%m-%d}.",
        control=control,
    )


def _status(found: Sequence[HistoryChange], drift: Drift | None, present: int, nights: int) -> str:
    if present < max(ENOUGH, FEWEST):
        return "insufficient_data"
    if found and nights - found[-1].index <= 30:
        return found[-1].kind
    return "drift" if drift else "ok"
