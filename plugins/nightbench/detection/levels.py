"""Estimates the levels, the weekly pattern and the noise of a series' past.

An exact search proposes change points on winsorised values (`cheapest_partition`). A short
excursion is merged into the level around it, so that a series that alternates between two values
has one level and much noise. Changes within the last nights are left to `evidence`.
"""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nightbench.detection.robust import Floats, median, noise_of_differences, scale, winsorised
from nightbench.detection.series import Series

SETTLED = 22
"""Nights that a level must last to count as the present level of a series."""

LONGEST_EXCURSION = 14
"""Most nights between two similar levels that are no level of their own."""

PENALTY = 4.0
"""Penalty of a proposed change in squared noise scales, per logarithm of the nights."""

SHORTEST = 3
"""Nights of the shortest proposed segment."""

FEWEST_FOR_DRIFT = 30
"""Fewest nights without a step in which a drift is looked for."""

NOISE_FLOOR = 0.0015
"""Smallest relative noise that is assumed of any series."""

WEEKLY_EVIDENCE = 22.0
"""Chi-squared of the weekdays' means (6 degrees of freedom) from which a pattern is assumed."""


@dataclass(frozen=True)
class LevelEstimate:
    """Levels and noise of a window of nights, before its last nights are tested for a change."""

    values: Floats
    """Logarithms, without the weekly pattern."""
    calm: Floats
    """The same, winsorised."""
    residual: Floats
    """Distance from the median of the proposed segment that the night belongs to."""
    aligned: Floats
    """Distance from the level of the night; NaN from `base` on, if the level is not settled."""
    weekday: Floats
    """Effect of each of the seven weekdays, see `weekday_of`."""
    starts: tuple[int, ...]
    """First nights of the levels; the last is that of the present level."""
    step_noise: float
    """Standard deviation from differences of neighbouring nights."""
    level_noise: float
    """Standard deviation of the distances to the proposed segments."""

    @property
    def base(self) -> int:
        """First night of the present level."""
        return self.starts[-1]

    @property
    def noise(self) -> float:
        """Relative standard deviation from night to night, the larger of the two estimates."""
        return max(self.step_noise, self.level_noise)


def estimate_level(series: Series) -> LevelEstimate:
    """Return levels and noise of a window of at least 8 nights."""
    values = series.level
    step_noise = max(noise_of_differences(values), 0.001)
    calm, breaks, residual = _proposed_segments(values, step_noise)
    effects = weekday_effects(residual, series.day, max(scale(residual), NOISE_FLOOR, step_noise))
    if effects.any():
        values = values - effects[weekday_of(series.day)]
        step_noise = max(noise_of_differences(values), 0.001)
        calm, breaks, residual = _proposed_segments(values, step_noise)
    level_noise = max(scale(residual), NOISE_FLOOR)
    levels = merge(values, breaks, level_noise)
    aligned = np.full(len(values), np.nan)
    for start, stop, level in levels[:-1]:
        aligned[start:stop] = values[start:stop] - level
    return LevelEstimate(
        values,
        calm,
        residual,
        aligned,
        effects,
        tuple(first for first, _, _ in levels),
        step_noise,
        level_noise,
    )


def cheapest_partition(values: Floats, penalty: float) -> list[int]:
    """Return the boundaries of the segments that cost least, from 0 to the number of values.

    A segment costs the sum of squared distances from its mean, and each but the first `penalty`.
    No segment is shorter than `SHORTEST`. The search is exact: optimal partitioning (Jackson et al.
    2005), in time and memory proportional to the square of the number of values.
    """
    n = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    # The sum of squares minus a segment's cost; the sum is the same in all partitions.
    saved = np.subtract.outer(sums, sums)
    saved *= saved
    saved *= _inverse_lengths(-(-(n + 1) // 64) * 64)[: n + 1, : n + 1]
    best = np.full(n + 1, -np.inf)
    best[0] = penalty
    start_of = [0] * (n + 1)
    for stop in range(SHORTEST, n + 1):
        starts = stop - SHORTEST + 1
        total = saved[stop, :starts]
        total += best[:starts]
        start_of[stop] = int(total.argmax())
        best[stop] = total[start_of[stop]] - penalty
    found = [n]
    while found[-1] > 0:
        found.append(start_of[found[-1]])
    return found[::-1]


@functools.lru_cache(maxsize=4)
def _inverse_lengths(size: int) -> Floats:
    """Return 1 / (stop - start) in row `stop` and column `start`; 0 if there is no segment."""
    length = np.subtract.outer(np.arange(size), np.arange(size))
    return np.divide(1.0, length, where=length > 0, out=np.zeros((size, size)))


def merge(values: Floats, breaks: list[int], sigma: float) -> list[tuple[int, int, float]]:
    """Return levels (first night, night after the last, median) from proposed segments."""
    levels = [(a, b, median(values[a:b])) for a, b in itertools.pairwise(breaks)]
    while len(levels) > 1 and len(values) - levels[-1][0] < SETTLED:
        last = levels.pop()
        levels[-1] = (levels[-1][0], last[1], levels[-1][2])
    while True:
        merged = _merge_equal(values, levels, sigma) or _absorb_excursion(values, levels, sigma)
        if not merged:
            return levels


def weekday_effects(residual: Floats, day: Floats, sigma: float) -> Floats:
    """Return the effect of each weekday (UTC), shrunk by its evidence; zeros without a pattern."""
    nothing = np.zeros(7)
    if len(residual) < 21:
        return nothing
    weekday = weekday_of(day)
    clipped = np.clip(residual, -3 * sigma, 3 * sigma)
    nights = np.bincount(weekday, minlength=7)
    mean = np.bincount(weekday, weights=clipped, minlength=7) / np.maximum(nights, 1)
    mean = np.where(nights > 0, mean - clipped.mean(), 0.0)
    variance = max(float((clipped - mean[weekday]).var()), 1e-12)
    evidence = float((nights * mean**2).sum()) / variance
    if evidence <= WEEKLY_EVIDENCE:
        return nothing
    shrunk: Floats = mean * (1 - 12 / evidence)  # James-Stein with twice the shrinkage
    return shrunk


def weekday_of(day: Floats) -> NDArray[np.int64]:
    """Return the number of each day's weekday, 0 to 6 (UTC)."""
    return np.floor(day).astype(np.int64) % 7


def _proposed_segments(values: Floats, step_noise: float) -> tuple[Floats, list[int], Floats]:
    calm = winsorised(values, step_noise)
    breaks, n = [0, len(values)], len(values)
    if n >= 2 * SHORTEST:
        penalty = PENALTY * math.log(max(n, 10))
        breaks = cheapest_partition(calm / max(step_noise, NOISE_FLOOR), penalty)
    residual = values.copy()
    for start, stop in itertools.pairwise(breaks):
        residual[start:stop] -= median(values[start:stop])
    return calm, breaks, residual


def _merge_equal(values: Floats, levels: list[tuple[int, int, float]], sigma: float) -> bool:
    for j in range(1, len(levels)):
        if abs(levels[j][2] - levels[j - 1][2]) < 0.8 * sigma:
            start, stop = levels[j - 1][0], levels[j][1]
            levels[j - 1 : j + 1] = [(start, stop, median(values[start:stop]))]
            return True
    return False


def _absorb_excursion(values: Floats, levels: list[tuple[int, int, float]], sigma: float) -> bool:
    inner = sorted((levels[j][1] - levels[j][0], j) for j in range(1, len(levels) - 1))
    for nights, j in inner:
        if nights > LONGEST_EXCURSION:
            return False
        before, short, after = levels[j - 1 : j + 2]
        depth = abs(short[2] - (before[2] + after[2]) / 2)
        if abs(before[2] - after[2]) < max(0.4 * depth, sigma):
            around = np.concatenate([values[before[0] : short[0]], values[short[1] : after[1]]])
            levels[j - 1 : j + 2] = [(before[0], after[1], median(around))]
            return True
    return False
