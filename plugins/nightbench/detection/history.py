"""Judges a whole history: its changes as they are detected night by night, and its drift."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nightbench.detection.change_detector import change_evidence
from nightbench.detection.changes import FEWEST, LOOK_BACK, TAIL, Change, changes_of_last_night
from nightbench.detection.control_shift import ControlShift, control_shift
from nightbench.detection.detector import APART, new_state_odds
from nightbench.detection.drift import Drift, drift_of
from nightbench.detection.followers import find_changes
from nightbench.detection.observations import Observation
from nightbench.detection.power import smallest_slowdown
from nightbench.detection.process_pool import spread
from nightbench.detection.series import Series, repeat_sigma

History = tuple[str, Sequence[Observation]]
"""Name and nights of a series."""

ENOUGH = 10
"""Nights of the present segment below which the status is `insufficient_data`."""


@dataclass(frozen=True)
class HistoryChange:
    """A change with the nights around it; `change` and `baseline` refer to the values as given."""

    kind: str
    """regressed or improved."""
    index: int
    """Of the first night at the new level, among all nights of the series."""
    first_bad: Observation
    """First night at the new level, also of an improvement."""
    last_good: Observation
    """Last measured night at the old one."""
    detected: Observation
    """Night with which it was detected."""
    change: float
    low: float
    high: float
    baseline: float
    score: float
    sentence: str
    control: ControlShift | None = None
    """Shift of the control measurements of the same nights; None where unknown."""


@dataclass(frozen=True)
class Segment:
    """A stretch of nights that begins with another fingerprint and is judged separately."""

    first: Observation
    step: HistoryChange | None
    """The step of the level at its beginning, where one is detected. It is no change of the
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
    drift_since: Observation | None
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
    name: str, nights: Sequence[Observation], lower_is_better: bool = False, min_change: float = 0.0
) -> HistoryReport:
    """Judge a history night by night, as if each night had been judged when it was measured.

    Args:
        name: of the series.
        nights: oldest first; nights without a value are missing ones.
        lower_is_better: for times and sizes: a rise is the regression.
        min_change: smallest relative change that is reported.
    """
    usable = [i for i, night in enumerate(nights) if night.value is not None]
    groups = _groups([nights[i].fingerprint for i in usable])
    series = _series([nights[i] for i in usable], lower_is_better)
    found: list[HistoryChange] = []
    segments: list[Segment] = []
    since = 0

    def reported(change: Change, members: Sequence[int]) -> HistoryChange:
        own = [usable[i] for i in members]
        control = _control(nights, own[: change.detected + 1], change)
        return _history_change(change, nights, own, lower_is_better, control)

    for number, group in enumerate(groups):
        changes = find_changes(series.take(group), min_change)
        found += (reported(change, group) for change in changes)
        if number:
            before = next(other for other in groups if group[0] - 1 in other)
            joined = [*(i for i in before if i < group[0]), *group]
            boundary_step = _step_at_boundary(
                series, [nights[i].fingerprint for i in usable], joined, group[0]
            )
            step = None
            if boundary_step is not None and boundary_step.may_reach(min_change):
                step = reported(boundary_step, joined)
            segments.append(Segment(nights[usable[group[0]]], step))
        if not group or group[-1] == len(usable) - 1:
            since = max([0, *(change.first for change in changes)])
            last, members = series.take(group), group
    found.sort(key=lambda each: each.index)
    drift = drift_of(last) or (drift_of(last, since) if since else None)
    if drift and lower_is_better:
        drift = drift.inverted()
    return HistoryReport(
        series=name,
        nights=len(nights),
        missing=len(nights) - len(usable),
        absent=_absent(nights),
        status=_status(found, drift, len(last), nights, usable),
        changes=tuple(found),
        segments=tuple(segments),
        drift=drift,
        drift_since=nights[usable[members[drift.first]]] if drift else None,
        smallest_slowdown=smallest_slowdown(last, min_change),
    )


def _judge_named(history: History, lower_is_better: bool, min_change: float) -> HistoryReport:
    return judge_history(*history, lower_is_better, min_change)


def _series(nights: Sequence[Observation], lower_is_better: bool) -> Series:
    """Return the nights as a series, inverted where lower is better: a fall is the regression."""
    sign = -1.0 if lower_is_better else 1.0
    return Series(
        np.array([night.seconds / 86400 for night in nights], dtype=float),
        sign * np.log(np.array([night.value for night in nights], dtype=float)),
        np.array([repeat_sigma(night.spread, night.n) for night in nights], dtype=float),
        np.array([math.nan if night.n is None else night.n for night in nights], dtype=float),
    )


def _absent(nights: Sequence[Observation]) -> int | None:
    """Return how many nights have no row; None unless most rows follow a day after another."""
    days = np.diff([night.seconds for night in nights]) / 86400
    if np.count_nonzero(np.abs(days - 1) < 0.25) <= len(days) / 2:
        return None
    return int(np.maximum(np.round(days) - 1, 0).sum())


def _groups(fingerprints: Sequence[str | None]) -> list[list[int]]:
    """Return groups of comparable nights, ordered by their first night.

    A night without a fingerprint belongs to the group of the night before it.
    """
    groups: list[list[int]] = [[]]
    names: list[str | None] = [None]
    present = 0
    for i, fingerprint in enumerate(fingerprints):
        if fingerprint is not None and names[present] is None:
            names[present] = fingerprint
        if fingerprint is not None and names[present] != fingerprint:
            known = [
                k
                for k, name in enumerate(names)
                if name == fingerprint and i - groups[k][-1] - 1 <= APART
            ]
            if not known:
                groups.append([])
                names.append(fingerprint)
            present = known[-1] if known else len(groups) - 1
        groups[present].append(i)
    return groups


def _step_at_boundary(
    series: Series, fingerprints: Sequence[str | None], joined: Sequence[int], start: int
) -> Change | None:
    """Return the step at the beginning of a group; None without one. Its nights index `joined`.

    These are the nights before the group and its own, from `start` on.
    """
    first = joined.index(start)
    if first < ENOUGH:
        return None
    # Nights between without a fingerprint may belong to either.
    earliest = first
    while fingerprints[joined[earliest - 1]] is None:
        earliest -= 1
    for night in range(first + 1, min(first + TAIL, len(joined))):
        odds = np.zeros(night + 1)
        oldest = max(0, joined[night] + 1 - LOOK_BACK)
        if start >= oldest:
            odds[first] = new_state_odds(fingerprints[oldest : joined[night] + 1])[start - oldest]
        for change in changes_of_last_night(series.take(joined[: night + 1]), known=odds):
            if earliest <= change.first <= first:
                return change
    return None


def _control(
    nights: Sequence[Observation], until_detected: Sequence[int], change: Change
) -> ControlShift | None:
    figures = [nights[i].control for i in until_detected]
    known = np.array([math.nan if f is None else math.log(f) for f in figures], dtype=float)
    return control_shift(known, change.first, math.log1p(change.change))


def _history_change(
    change: Change,
    nights: Sequence[Observation],
    usable: Sequence[int],
    lower_is_better: bool,
    control: ControlShift | None,
) -> HistoryChange:
    first, last_good = nights[usable[change.first]], nights[usable[change.first - 1]]
    detected = nights[usable[change.detected]]
    kind = "regressed" if change.falls else "improved"
    if lower_is_better:
        change = change.inverted()
        if control:
            control = replace(control, remains=1 / (1 + control.remains) - 1)
    evidence = f"; {control.sentence}" if control else ""
    return HistoryChange(
        kind=kind,
        index=usable[change.first],
        first_bad=first,
        last_good=last_good,
        detected=detected,
        change=change.change,
        low=change.low,
        high=change.high,
        baseline=change.baseline,
        score=change.score,
        sentence=f"{change_evidence(change)}{evidence}; detected on {detected.day}.",
        control=control,
    )


def _status(
    found: Sequence[HistoryChange],
    drift: Drift | None,
    last: int,
    nights: Sequence[Observation],
    usable: Sequence[int],
) -> str:
    if last < max(ENOUGH, FEWEST):
        return "insufficient_data"
    if found and len(nights) - found[-1].index <= 30:
        return found[-1].kind
    return "drift" if drift else "ok"
