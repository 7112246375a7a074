"""The smallest slowdown that the detector would find in a series."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from nightbench.detection.acceptance import log_odds, odds_of_noise
from nightbench.detection.changes import FEWEST, LEAST_REFERENCE, LOOK_BACK, SCREENING_THRESHOLD
from nightbench.detection.evidence import Evidence, count_visits, evidence_of_each, nights_before
from nightbench.detection.levels import LevelEstimate, estimate_level
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

MOST = 2**11
STEP = 0.6 / MOST
"""Slowdowns are tried in steps, as a logarithm, up to so many of them."""

AHEAD = 6
"""Steps of the bisection that are tried at once."""


def window_before_a_week(series: Series) -> Series:
    """Return the last nights of a series that a detector reads together with a week after them."""
    return series.part(max(0, len(series) - LOOK_BACK + WITHIN), len(series))


def smallest_slowdown(
    series: Series,
    min_change: float = 0.0,
    siblings: Siblings | None = None,
    described: LevelEstimate | None = None,
) -> float | None:
    """Return the smallest relative fall that is reported within a week in nine of ten cases.

    A week of typical nights below the level is appended to the series and given to the detector;
    the noise of such a week and of the level is added. It covers both the variance within a night
    and the variance between nights.

    Args:
        series: the nights.
        min_change: a change is reported whose interval holds this relative size or more.
        siblings: what others say of the spread of a young series.
        described: `estimate_level` of `window_before_a_week`, where it is known.

    Returns:
        A fraction (0.03: 3 % slower); None for fewer nights than the detector needs, or where no
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
    # Only the week is tried at several levels.
    before = nights_before(more, past, nights, siblings)
    level_error = before.noise * math.sqrt(1 / WITHIN + 1 / min(reference, 90))
    week = more.level[nights:]

    def evidence(falls: Sequence[int]) -> list[Evidence]:
        tails = week - STEP * np.array(falls, dtype=float)[:, None]
        found = evidence_of_each(before, tails, -1)
        # What noise explains needs no visits.
        likely = [each for each in found if odds_of_noise(each) < 0]
        if likely:
            count_visits(likely)
        return found

    found = _least_detected(evidence, SCREENING_THRESHOLD * level_error / STEP)
    if found is None:
        return None
    fall, shown = STEP * found[0], found[1].shift
    certain = fall + CERTAIN * level_error
    large = -math.log1p(-min(min_change, 0.99)) + shown.ends[0] + fall + NINE_OF_TEN * level_error
    return -math.expm1(-max(certain, large))


def _least_detected(
    evidence_of_falls: Callable[[Sequence[int]], list[Evidence]], screened: float
) -> tuple[int, Evidence] | None:
    """Return the fall from which on all are detected, and its evidence; None where `MOST` is not.

    It is bisected. Several falls at once take little longer than one, so that those are tried
    together that come next if the odds rise with the square of the fall.

    Args:
        evidence_of_falls: returns the evidence of falls, in `STEP`.
        screened: fall up to which none is detected, in `STEP`.
    """
    low, high, expected = 0, MOST, 1.6 * screened
    falls = [MOST, *_path(low, high, expected, screened)]
    tried = dict(zip(falls, evidence_of_falls(falls), strict=True))
    below, above = -1.0, log_odds(tried[MOST], 0.0)
    if above <= 0:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if middle <= screened:
            low = middle
            continue
        if middle not in tried:
            if low > screened:
                part = below / (below - above)
                expected = math.sqrt(low**2 + part * (high**2 - low**2))
            falls = _path(low, high, expected, screened)
            tried.update(zip(falls, evidence_of_falls(falls), strict=True))
        odds = log_odds(tried[middle], 0.0)
        if odds > 0:
            high, above = middle, odds
        else:
            low, below = middle, odds
    return high, tried[high]


def _path(low: int, high: int, expected: float, screened: float) -> list[int]:
    """Return what a bisection tries next, if what it looks for is at `expected`."""
    path = list[int]()
    while high - low > 1 and len(path) < AHEAD:
        middle = (low + high) // 2
        if middle > screened:
            path.append(middle)
        low, high = (low, middle) if middle >= expected else (middle, high)
    return path
