"""The minimum detectable slowdown of a series."""

import bisect
import math

import numpy as np

from nightbench.detection.changes import FEWEST, LEAST_REFERENCE, LOOK_BACK
from nightbench.detection.evidence import EarlierNoise, evidence_of_each, reference_window
from nightbench.detection.levels import LevelEstimate, estimate_level
from nightbench.detection.odds import log_odds
from nightbench.detection.robust import Floats, median
from nightbench.detection.series import Series

WITHIN = 7
"""Nights within which the slowdown must be detected."""

CERTAIN = 2.1
"""Standard errors by which a week must be lower than a typical one, so that nine of ten are
detected. 1.3 are of the week's own mean, the rest because its nights scatter and its noise is an
estimate. Found by `python -m tests.performance promises`."""

NINE_OF_TEN = 1.2816
"""Standard normal quantile of 90 %."""

DROPS: Floats = np.geomspace(0.002, 0.6, 25)
"""Slowdowns that are tried, as logarithms: each is larger by 27 % than the one before."""


def window_before_a_week(series: Series) -> Series:
    """Return the last nights of a series that a detector reads together with a week after them."""
    return series.part(max(0, len(series) - LOOK_BACK + WITHIN), len(series))


def smallest_slowdown(
    series: Series,
    min_change: float = 0.0,
    earlier: EarlierNoise | None = None,
    described: LevelEstimate | None = None,
) -> float | None:
    """Return the minimum detectable slowdown: reported within a week in nine of ten cases.

    A week of typical nights below the level is appended to the series and given to the detector;
    the noise of such a week and of the level is added. The result covers both the variance within a
    night and the variance between nights.

    Args:
        series: the nights.
        min_change: a change is reported whose interval holds this relative size or more.
        earlier: the noise of the segment before, if this one is young.
        described: `estimate_level` of `window_before_a_week`, if it is known.

    Returns:
        A fraction (0.03: 3 % slower); None for fewer nights than the detector needs, or if no
        slowdown up to 45 % would be detected.
    """
    window = window_before_a_week(series)
    if len(window) < FEWEST:
        return None
    past = described or estimate_level(window)
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
    before = reference_window(more, past, nights, earlier)
    tails = np.repeat(level - DROPS[:, None], WITHIN, axis=1)
    found = evidence_of_each(before, tails, -1)
    smallest = bisect.bisect_left(found, 0.0, key=log_odds)
    if smallest == len(found):
        return None
    drop = float(DROPS[smallest])
    if smallest:
        below, above = log_odds(found[smallest - 1]), log_odds(found[smallest])
        between = max(0.0, -below / (above - below))
        drop = float(DROPS[smallest - 1] * (DROPS[smallest] / DROPS[smallest - 1]) ** between)
    level_error = before.noise * math.sqrt(1 / WITHIN + 1 / min(reference, 90))
    shown = found[smallest].shift
    certain = drop + CERTAIN * level_error
    width = -shown.ends[0] - float(DROPS[smallest])
    large = -math.log1p(-min(min_change, 0.99)) - width + NINE_OF_TEN * level_error
    return -math.expm1(-max(certain, large))
