"""The smallest slowdown that a series would catch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nightbench.detection.acceptance import WEIGHTS, Weights, log_odds
from nightbench.detection.changes import FEWEST, LEAST_REFERENCE, LOOK_BACK, SCREENING_THRESHOLD
from nightbench.detection.evidence import weigh
from nightbench.detection.levels import LevelEstimate, estimate_level
from nightbench.detection.robust import Floats, median
from nightbench.detection.series import Series

WITHIN = 7
"""Nights that a slowdown is given to be noticed."""

POWER = 1.2816
"""Standard errors for nine in ten: such a slowdown is caught in 90 % of all weeks like this."""

LARGEST = 0.6
"""Slowdowns beyond this are not tried."""


def smallest_slowdown(series: Series, weights: Weights = WEIGHTS) -> float | None:
    """Relative fall that would be told within a week in nine of ten cases, from tonight's past.

    A week of typical nights below the level is put after the series, and the detector itself is
    asked; what the noise of such a week and of the level may hide is added. Both variances are in
    it: the nights' medians vary by what the repeats within a night leave to chance, and by what
    changes from night to night.

    Returns:
        A fraction (0.03: 3 % slower), or None for fewer nights than the detector needs, or where
        no slowdown up to 45 % would be noticed.
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

    def caught(fall: float) -> bool:
        nonlocal noise
        values = more.level.copy()
        values[nights:] -= fall
        moved = _with_values(past, values)
        evidence = weigh(more, moved, nights, -1)
        noise = evidence.noise * math.sqrt(1 / WITHIN + 1 / min(reference, 90))
        return log_odds(evidence, weights) > 0 and fall > SCREENING_THRESHOLD * noise

    low, high = 0.0, LARGEST
    if not caught(high):
        return None
    while high - low > 0.0005:
        middle = (low + high) / 2
        low, high = (low, middle) if caught(middle) else (middle, high)
    return -math.expm1(-(high + POWER * noise))


def _with_values(past: LevelEstimate, values: Floats) -> LevelEstimate:
    """The same past with a week after it."""
    extra = np.zeros(len(values) - len(past.values))
    return replace(
        past,
        values=values,
        residual=np.concatenate([past.residual, extra]),
        aligned=np.concatenate([past.aligned, np.full(len(extra), np.nan)]),
    )
