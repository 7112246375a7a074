"""A series as arrays of numbers, on which change detection computes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.robust import Floats

RANGE_TO_SIGMA = {
    2: 1.128,
    3: 1.693,
    4: 2.059,
    5: 2.326,
    6: 2.534,
    7: 2.704,
    8: 2.847,
    9: 2.970,
    10: 3.078,
}
"""Expected range of n normal values, in standard deviations (the d2 of control charts)."""
_EXPECTED_RANGE: Floats = np.array([RANGE_TO_SIGMA.get(n, math.inf) for n in range(11)])


@dataclass(frozen=True)
class Series:
    """Nights of one series, oldest first; all arrays have one entry for each night."""

    day: Floats
    """Days since 1970, UTC, with the hour as a fraction."""
    level: Floats
    """Logarithm of the value."""
    within: Floats
    """Relative standard deviation of the night's repeats; NaN where unknown."""
    count: Floats
    """Number of repeats of the night; NaN where unknown."""

    def __len__(self) -> int:
        return len(self.level)

    def part(self, start: int, stop: int) -> Series:
        """Return the nights from `start` to before `stop`."""
        cut = slice(start, stop)
        return Series(self.day[cut], self.level[cut], self.within[cut], self.count[cut])

    def take(self, nights: Sequence[int]) -> Series:
        """Return the nights of these indices, in their order."""
        chosen = np.asarray(nights, dtype=int)
        return Series(self.day[chosen], self.level[chosen], self.within[chosen], self.count[chosen])


def repeat_sigma(spread: float | None, n: int | None) -> float:
    """Return the relative standard deviation of repeats from their range; NaN where unknown."""
    if spread is None or n is None or n < 2 or not math.isfinite(spread):
        return math.nan
    return spread / RANGE_TO_SIGMA[min(n, max(RANGE_TO_SIGMA))]


def series_of(points: Sequence[HistoryPoint], *, lower_is_better: bool = False) -> Series:
    """Return points of a history as a series; all values must be positive and finite.

    Where lower is better they are inverted: a fall is the regression.
    """
    count = np.array([math.nan if p.n is None else p.n for p in points], dtype=float)
    spread = np.array([math.nan if p.spread is None else p.spread for p in points], dtype=float)
    usable = (count >= 2) & np.isfinite(spread)
    expected = _EXPECTED_RANGE[
        np.where(usable, np.minimum(count, max(RANGE_TO_SIGMA)), 0).astype(int)
    ]
    level = np.log(np.array([p.value for p in points], dtype=float))
    return Series(
        np.array([p.at.timestamp() / 86400 for p in points], dtype=float),
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
        within: relative standard deviation of each night's repeats, where known.

    Returns:
        The series, and for each of its nights the index that it had in the columns.
    """
    times, raw = list(seconds), [math.nan if v is None else float(v) for v in values]
    known = [math.nan if w is None else float(w) for w in within]
    known += [math.nan] * (len(raw) - len(known))
    usable = [i for i, v in enumerate(raw) if math.isfinite(v) and v > 0]
    noise = [known[i] if known[i] > 0 and math.isfinite(known[i]) else math.nan for i in usable]
    series = Series(
        np.array([times[i] / 86400 for i in usable], dtype=float),
        np.log(np.array([raw[i] for i in usable], dtype=float)),
        np.array(noise, dtype=float),
        np.full(len(usable), math.nan),
    )
    return series, usable
