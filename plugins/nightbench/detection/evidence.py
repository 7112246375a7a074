"""Evidence of the last nights for a lasting change of the level.

The nights before `first` are the reference window. A robust line describes them; its slope is kept
near zero, so that a slow drift continues and is not taken for a step. The noise of a short window
is widened, because its estimate is uncertain. Each night has its own noise: if repeats scatter more
than usual, medians are expected to scatter more as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nightbench.detection.bayes_factors import BayesFactor, bayes_factors
from nightbench.detection.excursions import Excursions, past_excursions
from nightbench.detection.levels import NOISE_FLOOR, LevelEstimate
from nightbench.detection.robust import (
    MAD_TO_SIGMA,
    Z_90,
    Floats,
    median,
    running_median,
    variance_inflation,
)
from nightbench.detection.series import Series

REFERENCE = 90
"""Largest number of nights of the present level that a later night is compared with."""

UNCERTAIN = 12.0
"""The estimated noise of a window is widened by the factor hypot(1, UNCERTAIN / nights): by 1.8 for
8 nights, 1.2 for 20 and 1.01 for 90. The quantiles of Student's t distribution are wider than those
of the normal distribution for the same reason."""

SLOPE = 0.0002
"""Usual drift per night (one standard deviation), relative: 3 % in half a year."""

SLOW_NIGHTS, SLOW_WEIGHT = 0.3, 60.0
"""Prior of slow nights: 0.3 in 60."""

FEWEST_REPEATED = 5
"""Fewest nights with known repeats from which slow nights are recognised by their repeats."""

ALIKE_NIGHTS = 120
"""Last nights of the past whose autocorrelation is measured."""


@dataclass(frozen=True)
class EarlierNoise:
    """The noise of the segment before, on other hardware or another driver."""

    noise: float
    """Relative standard deviation from night to night."""
    nights: int

    def pooled(self, noise: float, nights: int) -> float:
        """Return the standard deviation of both segments together."""
        whole = self.nights * self.noise**2 + nights * noise**2
        return math.sqrt(whole / (self.nights + nights))


@dataclass(frozen=True)
class ReferenceWindow:
    """The nights before `first`, independent of the values from there on."""

    first: int
    nights: int
    """Nights of the level before."""
    median: float
    """Their median, a logarithm."""
    noise: float
    """Estimate of the relative standard deviation from night to night."""
    wide_noise: float
    """The same with the uncertainty of the estimate."""
    line: _Line
    sigma: Floats
    """Noise of each night that is tested."""
    slow: Floats
    """Probability that it is a slow night."""
    ess_per_night: float
    """Effective sample size of a night; autocorrelated nights count less."""
    distances: Floats
    """Distance of each earlier night from the level of its time."""
    is_unsettled: bool
    """True if the level changed within the nights that are read."""


@dataclass(frozen=True)
class Evidence:
    """Evidence for a change in one direction after a reference window."""

    before: ReferenceWindow
    after: int
    """Nights since."""
    shift: BayesFactor
    factor: float
    """Log Bayes factor against no change, by the effective sample size."""
    alone: float
    """Change of the logarithm that this night shows; that of `shift` may be averaged."""

    @cached_property
    def past(self) -> Excursions:
        """Earlier excursions to about the new level."""
        return past_excursions(self.before.distances / self.alone, self.distinct)

    @property
    def distinct(self) -> float:
        """Size of the change in noise scales."""
        return abs(self.alone) / self.before.wide_noise

    def averaged(self, others: Sequence[Evidence]) -> Evidence:
        """Return the evidence with the size averaged over the nights on which it may have begun.

        The night with the strongest evidence overestimates the size. The weights are likelihoods.
        """
        each = [self, *others]
        weight = np.exp([one.factor - self.factor for one in each])
        weight /= weight.sum()
        steps, low, high = np.array([(o.shift.step, *o.shift.ends) for o in each]).T
        step = float(weight @ steps)
        between = Z_90**2 * float(weight @ (steps - step) ** 2)
        ends = (
            step - math.sqrt(float(weight @ (steps - low) ** 2) + between),
            step + math.sqrt(float(weight @ (high - steps) ** 2) + between),
        )
        return replace(self, shift=replace(self.shift, step=step, ends_of=lambda: ends))


def reference_window(
    series: Series, past: LevelEstimate, first: int, earlier: EarlierNoise | None = None
) -> ReferenceWindow:
    """Return the reference window of a night.

    Args:
        series: the window that `past` describes; it may have more nights from `first` on.
        past: see `levels.estimate_level`.
        first: a night with at least one night of the present level before it.
        earlier: the noise of the segment before, if this one is young.
    """
    start = max(past.base, first - REFERENCE)
    reference = past.values[start:first]
    middle = median(reference)
    offsets = reference - middle
    is_known, usual_within, relative_noise = _relative_noise(series, start, first)
    own = MAD_TO_SIGMA * median(np.abs(offsets) / relative_noise)
    recent = MAD_TO_SIGMA * median(np.abs(past.residual[max(0, first - 120) : first]))
    noise = max(math.sqrt((own**2 + recent**2) / 2), 0.7 * past.step_noise, NOISE_FLOOR)
    known = len(reference)
    if earlier is not None:
        noise = max(earlier.pooled(noise, known), NOISE_FLOOR)
        known += earlier.nights
    wide = noise * math.hypot(1, UNCERTAIN / known)
    then = past.values[:first] - middle
    distances = np.where(np.isnan(past.aligned[:first]), then, past.aligned[:first])
    sigma, slow = _noise(series, past, first, wide, is_known, usual_within)
    return ReferenceWindow(
        first=first,
        nights=len(reference),
        median=middle,
        noise=noise,
        wide_noise=wide,
        line=_line(offsets, relative_noise, wide),
        sigma=sigma,
        slow=slow,
        ess_per_night=1 / variance_inflation(distances[-ALIKE_NIGHTS:]),
        distances=distances,
        is_unsettled=past.base > 0,
    )


def evidence_of(before: ReferenceWindow, tail: Floats, sign: int) -> Evidence:
    """Return the evidence for a drop (`sign` -1) or an increase (+1) with the nights of `tail`.

    These are the logarithms of the nights that follow the window.
    """
    return evidence_of_each(before, tail[None, :], sign)[0]


def evidence_of_each(before: ReferenceWindow, tails: Floats, sign: int) -> list[Evidence]:
    """Return the same for each row of `tails`: nights that might follow the window."""
    nights = tails.shape[1]
    line = before.line
    expected = line.level + line.slope * np.arange(1, nights + 1)
    variance = line.variance_at((nights + 1) / 2)
    distances = tails - before.median - expected
    return [
        Evidence(before, nights, shift, before.ess_per_night * shift.log_factor, shift.step)
        for shift in bayes_factors(
            distances, variance, sign, before.sigma, before.slow, before.ess_per_night
        )
    ]


@dataclass(frozen=True)
class _Line:
    """Level at the last night of the window and slope, with their covariance."""

    level: float
    slope: float
    level_variance: float
    slope_variance: float
    covariance: float

    def variance_at(self, nights: float) -> float:
        """Variance of the line so many nights after the window."""
        return (
            self.level_variance
            + 2 * nights * self.covariance
            + nights * nights * self.slope_variance
        )


def _line(offsets: Floats, relative_noise: Floats, noise: float) -> _Line:
    """Robust line through the window, by reweighted least squares."""
    time = np.arange(1 - len(offsets), 1, dtype=float)

    def fit(weight: Floats) -> _Line:
        s0, s1 = float(weight.sum()), float((weight * time).sum())
        s2 = float((weight * time * time).sum()) + (noise / SLOPE) ** 2
        b0, b1 = float((weight * offsets).sum()), float((weight * time * offsets).sum())
        determinant = s0 * s2 - s1 * s1
        unit = noise * noise / determinant
        return _Line(
            (s2 * b0 - s1 * b1) / determinant,
            (s0 * b1 - s1 * b0) / determinant,
            unit * s2,
            unit * s0,
            -unit * s1,
        )

    def weights(distance: Floats) -> Floats:
        given: Floats = 1 / (
            relative_noise * np.maximum(relative_noise, np.abs(distance) / (1.5 * noise))
        )
        return given

    line = fit(weights(offsets))
    return fit(weights(offsets - line.level - line.slope * time))


def _relative_noise(series: Series, start: int, first: int) -> tuple[bool, float, Floats]:
    """Return whether repeats are known, the usual sigma, and each night's sigma divided by it."""
    within = series.within[start:first]
    known = within[np.isfinite(within)]
    if len(known) < FEWEST_REPEATED or median(known) <= 0:
        return False, math.nan, np.ones(first - start)
    usual = median(known)
    filled = np.where(np.isfinite(within), within, usual) / usual
    return True, usual, np.clip(running_median(filled, 3), 0.5, 3.0)


def _noise(
    series: Series, past: LevelEstimate, first: int, noise: float, known: bool, usual_within: float
) -> tuple[Floats, Floats]:
    """Return the noise of each night that is tested, and the probability that it is slow."""
    deep = int((past.residual[:first] < -4 * noise).sum())
    slow = (SLOW_NIGHTS + min(deep, 0.1 * first)) / (SLOW_WEIGHT + first)
    nights = len(series) - first
    if not known:
        return np.full(nights, noise), np.full(nights, slow)
    from_here = max(0, first - 3)
    within = series.within[from_here:] / usual_within
    within = np.where(np.isfinite(within), within, 1.0)
    around = np.clip(running_median(within, 3), 0.5, 3.0)[first - from_here :]
    unusual = np.maximum(within[first - from_here :] / around, 1e-3)
    # A night whose repeats scatter more than those of its neighbours is probably a slow one.
    # The fewer the repeats, the less informative their range.
    counted = np.where(np.isnan(series.count[first:]), 60.0, series.count[first:])
    width = np.hypot(0.27, 0.75 / np.sqrt(np.maximum(counted - 1, 1)))
    as_usual = np.exp(-0.5 * (np.log(unusual) / width) ** 2) / (width * 2.5066 * unusual)
    as_slow = np.where(unusual > 1.4, 0.27, 0.01)
    odds = (0.3 * as_usual + 0.7 * as_slow) / np.maximum(as_usual, 1e-6)
    return noise * around, np.minimum(0.9, slow * odds)
