"""The smallest slowdown that the detector would find in a series."""

import math

import numpy as np

from nightbench.detection.acceptance import log_odds
from nightbench.detection.changes import FEWEST, LEAST_REFERENCE, LOOK_BACK, SCREENING_THRESHOLD
from nightbench.detection.evidence import evidence_of, nights_before
from nightbench.detection.levels import estimate_level
from nightbench.detection.robust import median
from nightbench.detection.series import Series
from nightbench.detection.siblings import Siblings

WITHIN = 7
"""Nights within which the slowdown must be detected."""

CERTAIN = 2.1
"""Standard errors by which a week must lie lower than a typical one needs to be detected, so that
nine of ten are: 1.3 of the week's own mean, the rest because its nights scatter and its noise is an
estimate. Found by `python -m tests.performance promises`."""

NINE_OF_TEN = 1.2816
"""Standard normal quantile of 90 %."""

LARGEST = 0.6
"""Largest slowdown that is tried, as a logarithm."""


def smallest_slowdown(
    series: Series, min_change: float = 0.0, siblings: Siblings | None = None
) -> float | None:
    """Return the smallest relative fall that is reported within a week in nine of ten cases.

    A week of typical nights below the level is appended to the series and given to the detector;
    the noise of such a week and of the level is added. It covers both the variance within a night
    and the variance between nights.

    Args:
        series: the nights.
        min_change: a change is reported whose interval holds this relative size or more.
        siblings: what others say of the spread of a young series.

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
    # Only the week is tried at several levels.
    before = nights_before(more, past, nights, siblings)
    level_error = below = 0.0

    def detected(fall: float) -> bool:
        nonlocal level_error, below
        evidence = evidence_of(before, more.level[nights:] - fall, -1)
        level_error = evidence.before.noise * math.sqrt(1 / WITHIN + 1 / min(reference, 90))
        below = -evidence.shift.low - fall
        return log_odds(evidence) > 0 and fall > SCREENING_THRESHOLD * level_error

    low, high = 0.0, LARGEST
    if not detected(high):
        return None
    while high - low > 0.0005:
        middle = (low + high) / 2
        low, high = (low, middle) if detected(middle) else (middle, high)
    certain = high + CERTAIN * level_error
    large = -math.log1p(-min(min_change, 0.99)) - below + NINE_OF_TEN * level_error
    return -math.expm1(-max(certain, large))
