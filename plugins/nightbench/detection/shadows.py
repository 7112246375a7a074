"""Shadow series: copies of real series with a known correct verdict.

A *fall* is a real series that is slower by a known share from a seeded night on. A *quiet* copy
certainly has no change: levels, drift and weekly pattern of the real series are removed, and its
nights are resampled in blocks (the stationary bootstrap of Politis and Romano, 1994), which keeps
the correlation of neighbouring nights. A shadow is seeded by its name, so it can be made again.
"""

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

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

LEAD = 90
"""Nights of a quiet copy before the first one that is judged."""

BLOCK = 7.0
"""Mean length of the resampled blocks, in nights."""

CLEAR = 3.0
"""Noise scales by which two levels must differ to be removed from quiet copies."""

LARGEST = 0.5
"""Largest planted fall, as a share of the level."""


@dataclass(frozen=True)
class SizeClass:
    """Falls of one size, or of sizes drawn uniformly from a range."""

    name: str
    low: float
    high: float
    in_noise: bool
    """True: sizes are multiples of the series' night-to-night noise; else shares of its level."""


FALLS = (
    SizeClass("3%", 0.03, 0.03, False),
    SizeClass("5%", 0.05, 0.05, False),
    SizeClass("10%", 0.10, 0.10, False),
    SizeClass("2-4 noise", 2.0, 4.0, True),
    SizeClass("over 4 noise", 4.0, 8.0, True),
)
"""The falls that are planted in every series, once a month each."""

QUIET = tuple(f"quiet-{number}" for number in range(1, 6))
"""Names of the quiet copies of every series."""


@dataclass(frozen=True)
class Shadow:
    """The name of one shadow, which seeds its random numbers."""

    suite: str
    cluster: str
    case_id: str
    month: date
    """First day of its month, UTC."""
    name: str
    """Name of its size class, or `quiet-1`, `quiet-2`, ..."""

    @property
    def begins(self) -> datetime:
        """Midnight of the month's first day, UTC."""
        return datetime(self.month.year, self.month.month, 1, tzinfo=UTC)

    @property
    def ends(self) -> datetime:
        """Midnight after the month's last day."""
        return (self.begins + timedelta(days=31)).replace(day=1)

    def random(self) -> np.random.Generator:
        """Return a generator that is seeded by the name, the same at every call."""
        words = (self.suite, self.cluster, self.case_id, f"{self.month:%Y-%m}", self.name)
        digest = hashlib.sha256("\0".join(words).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))


@dataclass(frozen=True)
class ShadowSeries:
    """A copy of a series: a fall, or a quiet one."""

    points: Sequence[HistoryPoint]
    first: int
    """Index of the first night that is judged; of a fall, the first slow one."""
    nights: Sequence[HistoryPoint]
    """The real nights from then on."""
    size: float | None = None
    """Of a fall: every value from `first` on is the real one * (1 - size)."""


def plant(shadow: Shadow, sizes: SizeClass, points: Sequence[HistoryPoint]) -> ShadowSeries | None:
    """Return a real series, oldest night first, with a planted fall.

    None where its night is not measured yet, or has too few comparable nights before it.
    """
    random = shadow.random()
    when = shadow.begins + (shadow.ends - shadow.begins) * random.random()
    share = random.uniform(sizes.low, sizes.high)
    first = next((i for i, point in enumerate(points) if point.at >= when), None)
    if first is None or points[first].at >= shadow.ends + timedelta(days=28):
        return None
    before = segment(points[:first], points[first])
    if len(before) < ENOUGH:
        return None
    size = min(LARGEST, share * noise_of(before) if sizes.in_noise else share)
    slower = [replace(point, value=point.value * (1 - size)) for point in points[first:]]
    return ShadowSeries([*points[:first], *slower], first, points[first:], size)


def noise_of(points: Sequence[HistoryPoint]) -> float:
    """Return the relative standard deviation between nights, without steps and slow nights."""
    return estimate_level(series_of(points[-LOOK_BACK:])).noise


def quiet_copy(shadow: Shadow, points: Sequence[HistoryPoint]) -> ShadowSeries | None:
    """Return a copy without a change for the nights of the shadow's month.

    `points` is the real series, oldest first, up to any night of the month or later. None where the
    month has no night yet with enough comparable ones before it.
    """
    month = [i for i, p in enumerate(points) if shadow.begins <= p.at < shadow.ends]
    for start in month:
        before = segment(points[:start], points[start])
        if len(before) >= ENOUGH:
            break
    else:
        return None
    pool = _pool(before)
    if pool is None:
        return None
    real = [points[i] for i in month if i >= start]
    drawn = _blocks(shadow.random(), len(pool.nights), LEAD + len(real))
    dates = [real[0].at - timedelta(days=days) for days in range(LEAD, 0, -1)]
    dates += [night.at for night in real]
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
    return ShadowSeries(copy, LEAD, real)


@dataclass(frozen=True)
class _Pool:
    """The nights to resample, as logarithms."""

    nights: Sequence[HistoryPoint]
    level: float
    residual: Floats
    """Distance of each night from its level, without drift and weekly pattern."""
    weekday: Floats
    """Effect of each of the seven weekdays."""


def _pool(before: Sequence[HistoryPoint]) -> _Pool | None:
    """Return the nights to resample, without levels and drift; None where too few are left."""
    nights = list(before[-LOOK_BACK:])
    series = series_of(nights)
    past = estimate_level(series)
    # A change that is too young for a level of its own is no noise.
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

    All other variation (visits of days, wandering) remains in the copies as noise.
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
    """Return the effect of each weekday; zeros where the detector finds no weekly pattern."""
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
