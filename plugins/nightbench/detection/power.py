"""The smallest slowdown that the detector would find in a series."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nightbench.detection.acceptance import WEIGHTS, Weights, log_odds
from nightbench.detection.changes import FEWEST, LEAST_REFERENCE, LOOK_BACK, SCREENING_THRESHOLD
from nightbench.detection.evidence import evidence_at
from nightbench.detection.levels import LevelEstimate, estimate_level
from nightbench.detection.robust import Floats, median
from nightbench.detection.series import Series

WITHIN = 7
"""Nights within which the slowdown must be detected."""

POWER = 1.2816
"""Standard normal quantile of 90 %: the slowdown is detected in nine of ten such weeks."""

LARGEST = 0.6
"""Largest slowdown that is tried, as a logarithm."""


def smallest_slowdown(
    series: Series, min_change: float = 0.0, weights: Weights = WEIGHTS
) -> float | None:
    """Return the smallest relative fall that is reported within a week in nine of ten cases.

    A week of typical nights below the level is appended to the series and given to the detector;
    the noise of such a week and of the level is added. It covers both the variance within a night
    and the variance between nights.

    Args:
        series: the nights.
        min_change: a change is reported whose interval holds this relative size or more.
        weights: of the odds.

    Returns:
        A fraction (0.03: 3 % slower); None for fewer nights than the detector needs, or where no
        slowdown up to 45 % would be detected.
    """
    window = series.part(max(0, len(series) - LOOK_BACK + WITHIN), len(series))
    if len(window) < FEWEST:
        return None
    past = estimate_level(window)
    nights = len(window)
    reference = nights - past.base
    if reference < LEAST_REFERENCE:
        return None
    level = median(past.values[past.base :])
    within = window.within[np.isfinite(window.within)]
    usual = median(within) if len(within) else math.nan
    counts = window.count[np.isfinite(window.count)]
    more = Series(
        np.concatenate([window.day, window.day[-1] + np.arange(1, WITHIN + 1)]),
        np.concatenate([past.values, np.full(WITHIN, level)]),
        np.concatenate([window.within, np.full(WITHIN, usual)]),
        np.concatenate([window.count, np.full(WITHIN, median(counts) if len(counts) else 1.0)]),
    )
    noise = 0.0

    def detected(fall: float) -> bool:
        nonlocal noise
        values = more.level.copy()
        values[nights:] -= fall
        moved = _with_values(past, values)
        evidence = evidence_at(more, moved, nights, -1)
        noise = evidence.noise * math.sqrt(1 / WITHIN + 1 / min(reference, 90))
        is_large = fall > SCREENING_THRESHOLD * noise and -math.expm1(evidence.low) >= min_change
        return is_large and log_odds(evidence, weights) > 0

    low, high = 0.0, LARGEST
    if not detected(high):
        return None
    while high - low > 0.0005:
        middle = (low + high) / 2
        low, high = (low, middle) if detected(middle) else (middle, high)
    return -math.expm1(-(high + POWER * noise))


def _with_values(past: LevelEstimate, values: Floats) -> LevelEstimate:
    """Return the same past with a week appended."""
    extra = np.zeros(len(values) - len(past.values))
    return replace(
        past,
        values=values,
        residual=np.concatenate([past.residual, extra]),
        aligned=np.concatenate([past.aligned, np.full(len(extra), np.nan)]),
    )
