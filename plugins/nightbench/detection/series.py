"""A series as arrays of numbers, on which change detection computes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.robust import Floats

_RANGES: Floats = np.array([1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847, 2.970, 3.078])
"""Expected range of 2, 3, ... 10 normal values, in standard deviations (d2 of Shewhart charts)."""


@dataclass(frozen=True)
class Series:
    """Nights of one series, oldest first; all arrays have one entry for each night."""

    day: Floats
    """Days since 1970, UTC, with the hour as a fraction."""
    level: Floats
    """Logarithm of the value."""
    within: Floats
    """Relative standard deviation of the night's repeats; NaN if unknown."""
    count: Floats
    """Number of repeats of the night; NaN if unknown."""

    def __len__(self) -> int:
        return len(self.level)

    def part(self, start: int, stop: int) -> Series:
        """Return the nights from `start` to before `stop`."""
        cut = slice(start, stop)
        return Series(self.day[cut], self.level[cut], self.within[cut], self.count[cut])


def series_of(points: Sequence[HistoryPoint], *, lower_is_better: bool = False) -> Series:
    """Return points of a history as a series; all values must be positive and finite.

    If lower is better they are inverted: a drop is the regression.
    """
    count = np.array([point.n for point in points], dtype=float)
    spread = np.array([point.spread for point in points], dtype=float)
    usable = (count >= 2) & np.isfinite(spread)
    expected = _RANGES[np.clip(np.where(usable, count, 2), 2, 10).astype(int) - 2]
    level = np.log(np.array([point.value for point in points], dtype=float))
    return Series(
        np.array([point.at.timestamp() / 86400 for point in points], dtype=float),
        -level if lower_is_better else level,
        np.where(usable, spread / expected, math.nan),
        count,
    )


def series_from(
    seconds: Iterable[float],
    values: Iterable[float | None],
    within: Iterable[float | None] = (),
) -> tuple[Series, list[int]]:
    """Return columns as a series, without the nights that have no usable value.

    Args:
        seconds: Unix time of each night, rising.
        values: None, NaN, infinite, zero and negative values count as missing nights.
        within: relative standard deviation of each night's repeats, if known.

    Returns:
        The series, and for each of its nights the index that it had in the columns.
    """
    times, raw, given = (
        np.array(list(column), dtype=float) for column in (seconds, values, within)
    )
    usable = np.flatnonzero(np.isfinite(raw) & (raw > 0))
    unknown = np.full(len(raw), math.nan)
    noise = np.append(given, unknown[len(given) :])[usable]
    noise[~(np.isfinite(noise) & (noise > 0))] = math.nan
    series = Series(times[usable] / 86400, np.log(raw[usable]), noise, unknown[usable])
    return series, [int(night) for night in usable]
