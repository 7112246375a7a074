"""A whole history judged at once: its changes as they would have been told, and its drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nightbench.detection.changes import (
    FEWEST,
    LOOK_BACK,
    TAIL,
    Change,
    changes_of_last_night,
    find_changes,
    shifted,
)
from nightbench.detection.control import ControlShift, control_shift
from nightbench.detection.drift import Drift, drift_of
from nightbench.detection.judge import why
from nightbench.detection.power import smallest_slowdown
from nightbench.detection.releases import odds_of_new
from nightbench.detection.series import Series, repeat_sigma
from nightbench.detection.tables import Night

ENOUGH = 10
"""Nights of the present segment from which more than `insufficient_data` is said."""


@dataclass(frozen=True)
class Found:
    """A change with the nights around it; `change` and `baseline` are of the value as given."""

    kind: str
    """regressed or improved."""
    index: int
    """Of the first night at the new level, among all nights of the series."""
    first_bad: Night
    """First night at the new level (good news too)."""
    last_good: Night
    """Last measured night at the old one."""
    told: Night
    """Night after which it was believed."""
    change: float
    low: float
    high: float
    baseline: float
    score: float
    sentence: str
    control: ControlShift | None = None
    """What the control measurements of the same nights did; None where they are not known."""


@dataclass(frozen=True)
class Segment:
    """Nights that are judged among themselves: the fingerprint changed before them."""

    first: Night
    step: Found | None
    """The step of the level that it began with, where it is believed. Nobody can tell from the
    series alone whether it was meant, so it is no change of the series."""


@dataclass(frozen=True)
class HistoryReport:
    """What a history says."""

    series: str
    nights: int
    missing: int
    status: str
    """insufficient_data, regressed or improved (the last change is news), drift, ok."""
    changes: tuple[Found, ...]
    segments: tuple[Segment, ...]
    """Those after the first."""
    drift: Drift | None
    smallest_slowdown: float | None


def judge_history(
    name: str, nights: Sequence[Night], lower_is_better: bool = False, min_change: float = 0.0
) -> HistoryReport:
    """Judge a history night by night, as if every night had been looked at when it came.

    Args:
        name: of the series.
        nights: oldest first; nights without a value are missing ones.
        lower_is_better: for times and sizes: a rise is the regression.
        min_change: relative changes below this are not told.
    """
    usable = [i for i, night in enumerate(nights) if night.value is not None]
    starts = _segments([nights[i] for i in usable])
    found: list[Found] = []
    segments: list[Segment] = []
    series = _series([nights[i] for i in usable], lower_is_better)
    since = 0
    for start, stop in zip(starts, [*starts[1:], len(usable)], strict=True):
        changes = find_changes(series.part(start, stop))
        since = max([0, *(change.first for change in changes)])
        for change in changes:
            if abs(change.change) >= min_change:
                control = _control(nights, usable[start : start + change.told + 1], change)
                placed = shifted(change, start)
                found.append(_found(placed, nights, usable, lower_is_better, control))
    fingerprints = [nights[i].fingerprint for i in usable]
    for before, start, stop in zip(starts, starts[1:], [*starts[2:], len(usable)], strict=False):
        turn = _turn(series, fingerprints, before, start, stop)
        step = None
        if turn is not None and abs(turn.change) >= min_change:
            control = _control(nights, usable[before : turn.told + 1], shifted(turn, -before))
            step = _found(turn, nights, usable, lower_is_better, control)
        segments.append(Segment(nights[usable[start]], step))
    last = series.part(starts[-1], len(series))
    drift = drift_of(last, since)
    if drift and lower_is_better:
        drift = Drift(drift.first, drift.nights, 1 / (1 + drift.change) - 1, drift.error)
    return HistoryReport(
        series=name,
        nights=len(nights),
        missing=len(nights) - len(usable),
        status=_status(found, drift, len(last), nights, usable),
        changes=tuple(found),
        segments=tuple(segments),
        drift=drift,
        smallest_slowdown=smallest_slowdown(last),
    )


def _series(nights: Sequence[Night], lower_is_better: bool) -> Series:
    """Inverted where lower is better, so that a fall is always the bad news."""
    sign = -1.0 if lower_is_better else 1.0
    return Series(
        np.array([night.seconds / 86400 for night in nights], dtype=float),
        sign * np.log(np.array([night.value for night in nights], dtype=float)),
        np.array([repeat_sigma(night.spread, night.n) for night in nights], dtype=float),
        np.array([math.nan if night.n is None else night.n for night in nights], dtype=float),
    )


def _segments(nights: Sequence[Night]) -> list[int]:
    """Where the fingerprint changed; a night that does not know its own changes nothing."""
    starts, present = [0], None
    for i, night in enumerate(nights):
        if night.fingerprint is None:
            continue
        if present is not None and night.fingerprint != present:
            starts.append(i)
        present = night.fingerprint
    return starts


def _turn(
    series: Series, fingerprints: Sequence[str | None], before: int, start: int, stop: int
) -> Change | None:
    """The step from the segment at `before` to the one at `start`, when it is first believed."""
    if start - before < ENOUGH:
        return None
    # Nights between that do not know their fingerprint may belong to either.
    earliest = start
    while fingerprints[earliest - 1] is None:
        earliest -= 1
    for night in range(start + 1, min(start + TAIL, stop)):
        odds = np.zeros(night + 1 - before)
        recent = fingerprints[max(0, night + 1 - LOOK_BACK) : night + 1]
        odds[start - before] = odds_of_new(recent)[start - night - 1]
        for change in changes_of_last_night(series.part(before, night + 1), known=odds):
            if earliest <= before + change.first <= start:
                return shifted(change, before)
    return None


def _control(
    nights: Sequence[Night], until_told: Sequence[int], change: Change
) -> ControlShift | None:
    figures = [nights[i].control for i in until_told]
    known = np.array([math.nan if f is None else math.log(f) for f in figures], dtype=float)
    return control_shift(known, change.first, math.log1p(change.change))


def _found(
    change: Change,
    nights: Sequence[Night],
    usable: Sequence[int],
    lower_is_better: bool,
    control: ControlShift | None,
) -> Found:
    first, last_good = nights[usable[change.first]], nights[usable[change.first - 1]]
    told = nights[usable[change.told]]
    kind = "regressed" if change.falls else "improved"
    if lower_is_better:
        change = _inverted(change)
        if control:
            control = replace(control, remains=1 / (1 + control.remains) - 1)
    said = f"; {control.sentence}" if control else ""
    return Found(
        kind=kind,
        index=usable[change.first],
        first_bad=first,
        last_good=last_good,
        told=told,
        change=change.change,
        low=change.low,
        high=change.high,
        baseline=change.baseline,
        score=change.score,
        sentence=f"{why(change)}{said}; told on {told.day}.",
        control=control,
    )


def _inverted(change: Change) -> Change:
    """The same change of 1 / value."""
    return replace(
        change,
        change=1 / (1 + change.change) - 1,
        low=1 / (1 + change.high) - 1,
        high=1 / (1 + change.low) - 1,
        baseline=1 / change.baseline,
    )


def _status(
    found: Sequence[Found],
    drift: Drift | None,
    last: int,
    nights: Sequence[Night],
    usable: Sequence[int],
) -> str:
    if last < max(ENOUGH, FEWEST):
        return "insufficient_data"
    if found and len(nights) - found[-1].index <= 30:
        return found[-1].kind
    return "drift" if drift else "ok"
