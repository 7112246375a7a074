"""Analysis of one night: numbers in, numbers out, without points and without sentences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nightbench.detection.changes import Change, examine_last_night
from nightbench.detection.drift import Drift, drift_of
from nightbench.detection.evidence import REFERENCE, EarlierNoise
from nightbench.detection.levels import estimate_level
from nightbench.detection.node_modes import NodeChange
from nightbench.detection.power import smallest_slowdown, window_before_a_week
from nightbench.detection.robust import Floats, median
from nightbench.detection.series import Series


@dataclass(frozen=True)
class Window:
    """Nights of a series, tonight last, in which a change is looked for."""

    series: Series
    known: Floats
    """Prior log odds of each night that a change from it on lasts."""


@dataclass(frozen=True)
class NightNumbers:
    """Numbers by which a night is judged."""

    comparable: Window | None
    """Tonight's segment; None if its nights are too few."""
    joined: Window | None
    """The segment before and tonight's; None if it is of no use."""
    boundary: int
    """First night of tonight's segment in it."""
    reported_from: float
    """Smallest relative change that is reported."""
    with_smallest: bool
    stay: NodeChange | None = None
    """Tonight's on other nodes, for which a change is pending."""


@dataclass(frozen=True)
class Level:
    """The present level of a series, without tonight."""

    middle: float
    """Logarithm."""
    nights: int
    noise: float
    """Relative standard deviation from night to night."""
    drift: Drift | None


@dataclass(frozen=True)
class NightAnalysis:
    """Result of `analyse_night`."""

    smallest: float | None = None
    change: Change | None = None
    """Within tonight's segment."""
    change_at_boundary: Change | None = None
    level: Level | None = None
    """Where nothing changed."""
    held: Change | None = None
    """Change that began with tonight's run on other nodes, which has not lasted yet."""


def analyse_night(night: NightNumbers) -> NightAnalysis:
    """Return what is found in a night's numbers."""
    smallest, examined, held, past, earlier = None, None, None, None, None
    if night.joined is not None:
        before = night.joined.series.part(0, night.boundary)
        earlier = EarlierNoise(estimate_level(before).noise, min(len(before), REFERENCE))
    if night.comparable is not None:
        series = night.comparable.series
        if night.with_smallest:
            before = window_before_a_week(series.part(0, len(series) - 1))
            past = estimate_level(before)
            smallest = smallest_slowdown(before, night.reported_from, earlier, past)
        examined = examine_last_night(series, night.comparable.known, earlier)
        change = _of_tonight(examined.changes, series, night) if examined else None
        if change is not None and night.stay and night.stay.holds(change.first):
            held = change
        elif change is not None:
            return NightAnalysis(smallest, change)
    if night.joined is not None:
        series = night.joined.series
        joined = examine_last_night(series, night.joined.known)
        changes = joined.changes if joined else []
        at_boundary = [each for each in changes if each.first == night.boundary]
        change = _of_tonight(at_boundary, series, night)
        if change is not None:
            return NightAnalysis(smallest, change_at_boundary=change)
    if night.comparable is None:
        return NightAnalysis()
    series = night.comparable.series
    before = window_before_a_week(series.part(0, len(series) - 1))
    past = past or estimate_level(before)
    level = past.values[past.base :][-REFERENCE:]
    # The longest drift first: the search for levels cuts a drift into small steps.
    drift = None
    if examined and night.with_smallest:
        drift = drift_of(series, described=examined.past)
        if drift is None and past.base:
            drift = drift_of(series, len(series) - 1 - len(before) + past.base)
    found = Level(median(level), len(level), past.noise, drift)
    return NightAnalysis(smallest, level=found, held=held)


def _of_tonight(changes: Sequence[Change], series: Series, night: NightNumbers) -> Change | None:
    """Return the first change that is large enough and that tonight still shows, or None."""
    for change in changes:
        old = math.log(change.baseline)
        new = old + math.log1p(change.change)
        still = abs(series.level[-1] - new) < abs(series.level[-1] - old)
        if change.may_reach(night.reported_from) and still:
            return change
    return None
