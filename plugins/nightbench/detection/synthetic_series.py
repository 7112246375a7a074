"""Synthetic series: copies of real series with a known correct verdict.

An *injected slowdown* is a real series that is slower by a known share from a seeded night on. A
*null copy* certainly has no change. Levels, drift and weekly pattern of the real series are
removed. Its nights are resampled in blocks (the stationary bootstrap of Politis and Romano,
1994), which keeps the correlation of neighbouring nights.
"""

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.changes import LOOK_BACK, changes_of_last_night
from nightbench.detection.detector import segment
from nightbench.detection.drift import drift_of
from nightbench.detection.levels import (
    NOISE_FLOOR,
    SETTLED,
    LevelEstimate,
    estimate_level,
    weekday_effects,
    weekday_of,
)
from nightbench.detection.robust import Floats, median, scale
from nightbench.detection.series import Series, series_of

ENOUGH = 20
"""Fewest comparable nights of a series that is copied."""

WATCHED = 14
"""Nights within which an injected slowdown must be detected."""

LEAD = 90
"""Nights of a null copy before the first one that is judged."""

BLOCK = 7.0
"""Mean length of the resampled blocks, in nights."""

CLEAR = 3.0
"""Noise scales by which two levels must differ to be removed from null copies."""

LARGEST = 0.5
"""Largest injected slowdown, as a share of the level."""


@dataclass(frozen=True)
class SizeClass:
    """Slowdowns of one size, or of random sizes, uniform in a range."""

    name: str
    low: float
    high: float
    in_noise: bool
    """True: sizes are multiples of the series' night-to-night noise; else shares of its level."""


SLOWDOWNS = (
    SizeClass("3%", 0.03, 0.03, False),
    SizeClass("5%", 0.05, 0.05, False),
    SizeClass("10%", 0.10, 0.10, False),
    SizeClass("2-4 noise", 2.0, 4.0, True),
    SizeClass("over 4 noise", 4.0, 8.0, True),
)
"""The slowdowns that are injected into copies of every series."""


@dataclass(frozen=True)
class SyntheticSeries:
    """A copy of a series: with an injected slowdown, or a null copy."""

    points: Sequence[HistoryPoint]
    first: int
    """Index of the first night that is judged, which is the first slow one."""
    size: float | None = None
    """Size of a slowdown: every value from `first` on is the real one * (1 - size)."""


def seeded(*words: str) -> np.random.Generator:
    """Return a generator that is seeded by words, the same at every call."""
    digest = hashlib.sha256("\0".join(words).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def inject(
    random: np.random.Generator,
    sizes: SizeClass,
    points: Sequence[HistoryPoint],
    since: datetime,
) -> SyntheticSeries | None:
    """Return a real series, oldest night first, with an injected slowdown.

    It begins on one of the nights from `since` on that have `WATCHED` nights, itself included.
    None if there is no such night, or if it has fewer than `ENOUGH` comparable nights before it.
    """
    share = random.uniform(sizes.low, sizes.high)
    nights = [i for i in range(ENOUGH, len(points) - WATCHED + 1) if points[i].at >= since]
    if not nights:
        return None
    first = nights[int(random.integers(len(nights)))]
    before = segment(points[:first], points[first])
    if len(before) < ENOUGH:
        return None
    size = min(LARGEST, share * noise_of(before) if sizes.in_noise else share)
    slower = [replace(point, value=point.value * (1 - size)) for point in points[first:]]
    return SyntheticSeries([*points[:first], *slower], first, size)


def noise_of(points: Sequence[HistoryPoint]) -> float:
    """Return the relative standard deviation between nights, without steps and slow nights."""
    return estimate_level(series_of(points[-LOOK_BACK:])).noise


def null_copy(
    random: np.random.Generator, points: Sequence[HistoryPoint], since: datetime
) -> SyntheticSeries | None:
    """Return a copy without a change for the nights of a series from `since` on.

    `points` is the real series, oldest first. Nights that are not comparable with the last one, and
    the first `ENOUGH` of those that are, have no night in the copy. None if no night is left.
    """
    comparable = [*segment(points[:-1], points[-1]), *points[-1:]] if points else []
    dates = [point.at for point in comparable[ENOUGH:] if point.at >= since]
    pool = _pool(comparable) if dates else None
    if pool is None:
        return None
    dates = [*(dates[0] - timedelta(days=days) for days in range(LEAD, 0, -1)), *dates]
    drawn = _blocks(random, len(pool.nights), len(dates))
    weekdays = weekday_of(np.array([at.timestamp() / 86400 for at in dates]))
    copy = [
        HistoryPoint(
            at=at,
            value=math.exp(pool.level + pool.residual[index] + pool.weekday[weekday]),
            n=pool.nights[index].n,
            spread=pool.nights[index].spread,
        )
        for index, at, weekday in zip(drawn, dates, weekdays, strict=True)
    ]
    return SyntheticSeries(copy, LEAD)


@dataclass(frozen=True)
class _Pool:
    """The nights to resample, as logarithms."""

    nights: Sequence[HistoryPoint]
    level: float
    residual: Floats
    """Distance of each night from its level, without drift and weekly pattern."""
    weekday: Floats
    """Effect of each of the seven weekdays."""


def _pool(points: Sequence[HistoryPoint]) -> _Pool | None:
    """Return the nights to resample, without levels and drift; None if too few are left."""
    nights = list(points[-LOOK_BACK:])
    series = series_of(nights)
    past = estimate_level(series)
    # A change that is too recent to have its own level is no noise.
    young = [c.first for c in changes_of_last_night(series) if c.first > past.base]
    if young:
        nights = nights[: min(young)]
        if len(nights) < ENOUGH:
            return None
        series = series_of(nights)
        past = estimate_level(series)
    starts = _levels(series.level, past)
    residual = _residual(series, starts)
    effects = _weekly(residual, series)
    residual = residual - effects[weekday_of(series.day)]
    return _Pool(nights, median(series.level[starts[-1] :]), residual - median(residual), effects)


def _levels(values: Floats, past: LevelEstimate) -> list[int]:
    """Return the first nights of the levels of a series that are long and far apart.

    All other variation (excursions of days, wandering) remains in the copies as noise.
    """
    clear = CLEAR * past.noise
    starts = list(past.starts)
    while len(starts) > 1:
        ends = [*starts[1:], len(values)]
        middles = [median(values[a:b]) for a, b in zip(starts, ends, strict=True)]
        joins = []
        for k in range(1, len(starts)):
            apart = abs(middles[k] - middles[k - 1])
            shorter = min(ends[k] - starts[k], ends[k - 1] - starts[k - 1])
            if apart < clear or shorter < SETTLED:
                joins.append((apart, k))
        if not joins:
            break
        del starts[min(joins)[1]]
    return starts


def _residual(series: Series, starts: Sequence[int]) -> Floats:
    """Return the distance of each night from its level, without the drift of the last level."""
    residual = series.level.copy()
    for start, stop in itertools.pairwise([*starts, len(series)]):
        residual[start:stop] -= median(residual[start:stop])
    drift = drift_of(series, starts[-1])
    if drift is not None:
        day = series.day[starts[-1] :]
        slope = math.log1p(drift.change) / (day[-1] - day[0])
        residual[starts[-1] :] -= slope * (day - day.mean())
    return residual


def _weekly(residual: Floats, series: Series) -> Floats:
    """Return the effect of each weekday; zeros if the detector finds no weekly pattern."""
    if not weekday_effects(residual, series.day, max(scale(residual), NOISE_FLOOR)).any():
        return np.zeros(7)
    weekday = weekday_of(series.day)
    return np.array(
        [median(residual[weekday == day]) if (weekday == day).any() else 0.0 for day in range(7)]
    )


def _blocks(random: np.random.Generator, among: int, count: int) -> list[int]:
    """Return `count` indices below `among` in blocks of geometric length, wrapping at the end."""
    drawn: list[int] = []
    while len(drawn) < count:
        start, length = int(random.integers(among)), int(random.geometric(1 / BLOCK))
        drawn += [(start + step) % among for step in range(length)]
    return drawn[:count]
