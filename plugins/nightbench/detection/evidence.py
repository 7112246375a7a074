"""Bayesian evidence of the last nights for a lasting change and for its alternatives.

For a night `first` and all nights from it on, three explanations compete:

* the level moved there by some amount (all amounts are tried, small ones are likelier);
* nothing happened: noise of this series, with single slow nights;
* a visit: the series has been at that level before, or may have a mode that it has not shown yet,
  and will come back. How often it went there and how long it stayed is counted in its past.

The nights before are described by a robust line whose slope is held near zero, so that a slow
drift is continued and not taken for a step. Each night is weighted by its noise: where repeats
scatter more than usual, medians are expected to scatter more as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nightbench.detection.bayes_factors import BayesFactor, bayes_factors
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
from nightbench.detection.siblings import Siblings
from nightbench.detection.visits import Visits, earlier_visits, earlier_visits_of_each

REFERENCE = 90
"""Largest number of nights of the present level that a later night is compared with."""

SLOPE = 0.0002
"""Usual drift a night (one standard deviation), relative: 3 % in half a year."""

SLOW_NIGHTS, SLOW_WEIGHT = 0.3, 60.0
"""Prior of slow nights: 0.3 in 60."""

FEWEST_REPEATED = 5
"""Fewest nights with known repeats by which others are told to be slow."""

WIDE = 1.6
"""By how much more the repeats of a slow night vary than those of its neighbours."""

ALIKE_NIGHTS = 120
"""Last nights of the past whose resemblance to their neighbours is measured."""


@dataclass(frozen=True)
class NightsBefore:
    """What the nights before `first` say, whatever the values are from there on."""

    first: int
    reference: int
    """Nights of the level before."""
    known: float
    """The same, with those of a sibling where the series is young."""
    middle: float
    """Their median."""
    noise: float
    line: _Line
    flat: _Line
    sigma: Floats
    """Noise of each night that is tested."""
    slow: Floats
    """Probability that it is a slow one."""
    worth: float
    """Of a night: those that resemble their neighbours are worth fewer than they are."""
    history: Floats
    """Distance of each night from the level of its time; `then` from the present level."""
    then: Floats
    siblings: Siblings | None
    """What others say, where the series is young."""
    has_levels: bool
    """There are levels before the present one."""
    within: Floats
    """Relative standard deviation of each night's repeats; NaN where unknown."""

    @cached_property
    def visited(self) -> Floats:
        """`history` without slow nights."""
        return self._without_slow(self.history)

    @cached_property
    def visited_then(self) -> Floats:
        """`then` without slow nights."""
        return self._without_slow(self.then)

    def _without_slow(self, distances: Floats) -> Floats:
        """Return distances without slow nights, which are no visits to another level.

        A night whose repeats vary more than those of its neighbours lies where the one of them
        does that is nearer to the level.
        """
        known = np.isfinite(self.within)
        if np.count_nonzero(known) < FEWEST_REPEATED:
            return distances
        within = np.where(known, self.within, median(self.within[known]))
        is_slow = within > WIDE * running_median(within, 3)
        if not is_slow.any():
            return distances
        around = np.concatenate([distances[:1], distances, distances[-1:]])
        left, right = around[:-2], around[2:]
        nearer = np.where(np.abs(left) < np.abs(right), left, right)
        return np.where(is_slow, nearer, distances)


@dataclass(frozen=True)
class Evidence:
    """Evidence for a change of one sign after the nights before."""

    before: NightsBefore
    after: int
    """Nights since."""
    shift: BayesFactor
    """With the drift continued."""
    drifting: float
    """Log Bayes factor of it, by what a night is worth."""
    steady: float
    """The same with no drift at all."""
    alone: float
    """Change of the logarithm that this night shows; that of `shift` may be averaged."""

    @cached_property
    def visits(self) -> Visits:
        """Earlier stays at about the new level, each night held against the level of its time."""
        return self._stays(self.before.visited)

    @cached_property
    def visits_before(self) -> Visits:
        """The same, each night held against the present level: earlier levels are stays, too."""
        return self._stays(self.before.visited_then) if self.before.has_levels else self.visits

    def _stays(self, distances: Floats) -> Visits:
        return _with_siblings(
            earlier_visits(distances / self.alone, abs(self.alone) / self.before.noise),
            self.before.siblings,
        )

    def averaged(self, others: Sequence[Evidence]) -> Evidence:
        """Return the evidence with the size of a change that may have begun on others' nights too.

        The night that shows it best flatters its size. Each is weighted by its likelihood.
        """
        each = [self, *others]
        weight = np.exp([one.drifting - self.drifting for one in each])
        weight /= weight.sum()
        steps, low, high = np.array([(o.shift.step, *o.shift.ends) for o in each]).T
        step = float(weight @ steps)
        between = Z_90**2 * float(weight @ (steps - step) ** 2)
        ends = (
            step - math.sqrt(float(weight @ (steps - low) ** 2) + between),
            step + math.sqrt(float(weight @ (high - steps) ** 2) + between),
        )
        return replace(self, shift=replace(self.shift, step=step, ends_of=lambda: ends))


def nights_before(
    series: Series, past: LevelEstimate, first: int, siblings: Siblings | None = None
) -> NightsBefore:
    """Return what the nights before `first` say.

    Args:
        series: the window that `past` describes; it may have more nights from `first` on.
        past: see `levels.estimate_level`.
        first: a night with at least one night of the present level before it.
        siblings: what others say of the spread of a young series.
    """
    start = max(past.base, first - REFERENCE)
    reference = past.values[start:first]
    middle = median(reference)
    offsets = reference - middle
    is_known, usual_within, relative_noise = _relative_noise(series, start, first)
    own = MAD_TO_SIGMA * median(np.abs(offsets) / relative_noise)
    recent = MAD_TO_SIGMA * median(np.abs(past.residual[max(0, first - 120) : first]))
    noise = max(math.sqrt((own**2 + recent**2) / 2), 0.7 * past.step_noise, NOISE_FLOOR)
    known = float(len(reference))
    if siblings is not None:
        noise = max(siblings.moderate(noise, len(reference)), NOISE_FLOOR)
        known += siblings.visits.elsewhere
    line, flat = _line(offsets, relative_noise, noise)
    then = past.values[:first] - middle
    history = np.where(np.isnan(past.aligned[:first]), then, past.aligned[:first])
    sigma, slow = _noise(series, past, first, noise, is_known, usual_within)
    return NightsBefore(
        first=first,
        reference=len(reference),
        known=known,
        middle=middle,
        noise=noise,
        line=line,
        flat=flat,
        sigma=sigma,
        slow=slow,
        worth=1 / variance_inflation(history[-ALIKE_NIGHTS:]),
        history=history,
        then=then,
        siblings=siblings,
        has_levels=past.base > 0,
        within=series.within[:first],
    )


def evidence_of(before: NightsBefore, tail: Floats, sign: int) -> Evidence:
    """Return the evidence that the level fell (`sign` -1) or rose (+1) with the nights of `tail`.

    These are the logarithms of the nights that follow those before.
    """
    return evidence_of_each(before, tail[None, :], sign)[0]


def evidence_of_each(before: NightsBefore, tails: Floats, sign: int) -> list[Evidence]:
    """Return the same for each row of `tails`: nights that might follow those before."""
    each, nights = tails.shape
    line, flat = before.line, before.flat
    steps = np.arange(1, nights + 1)
    expected = np.stack([line.level + line.slope * steps, flat.level + 0.0 * steps])
    variances = (
        max(line.variance_at((nights + 1) / 2), flat.variance_at(0)),
        flat.variance_at(0),
    )
    found = bayes_factors(
        (tails[:, None, :] - before.middle - expected).reshape(2 * each, nights),
        np.array(variances * each),
        sign,
        before.sigma,
        before.slow,
        before.worth,
    )
    return [
        Evidence(
            before,
            nights,
            drifting,
            before.worth * drifting.log_factor,
            before.worth * steady,
            drifting.step,
        )
        for drifting, steady in found
    ]


def count_visits(each: Sequence[Evidence]) -> None:
    """Count the visits of evidence of the same nights before together, which is quicker."""
    before, alone = each[0].before, np.array([evidence.alone for evidence in each])
    counted = earlier_visits_of_each(before.visited / alone[:, None], np.abs(alone) / before.noise)
    for evidence, visits in zip(each, counted, strict=True):
        # Where a cached property keeps its value.
        vars(evidence)["visits"] = _with_siblings(visits, before.siblings)


def _with_siblings(visits: Visits, siblings: Siblings | None) -> Visits:
    return visits if siblings is None else visits.plus(siblings.visits)


@dataclass(frozen=True)
class _Line:
    """Level at the last night of the reference and slope, with their covariance."""

    level: float
    slope: float
    level_variance: float
    slope_variance: float
    covariance: float

    def variance_at(self, nights: float) -> float:
        """Variance of the line so many nights after the reference."""
        return (
            self.level_variance
            + 2 * nights * self.covariance
            + nights * nights * self.slope_variance
        )


def _line(offsets: Floats, relative_noise: Floats, noise: float) -> tuple[_Line, _Line]:
    """Robust line through the reference, and the level alone, by reweighted least squares."""
    time = np.arange(1 - len(offsets), 1, dtype=float)

    def fit(weight: Floats, slope: float) -> _Line:
        s0, s1 = float(weight.sum()), float((weight * time).sum())
        s2 = float((weight * time * time).sum()) + (noise / slope) ** 2
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

    weight = weights(offsets)
    for _ in range(2):
        line = fit(weight, SLOPE)
        weight = weights(offsets - line.level - line.slope * time)
    return line, fit(weight, 1e-7)


def _relative_noise(series: Series, start: int, first: int) -> tuple[bool, float, Floats]:
    """Return whether repeats are known, their usual sigma, and each night's relative to it."""
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
    """Return the noise of each night that is tested, and the probability that it is a slow one."""
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
    # A night whose repeats disagree more than those of its neighbours is suspected to be slow.
    # The fewer the repeats, the less informative their range.
    counted = np.where(np.isnan(series.count[first:]), 60.0, series.count[first:])
    width = np.hypot(0.27, 0.75 / np.sqrt(np.maximum(counted - 1, 1)))
    as_usual = np.exp(-0.5 * (np.log(unusual) / width) ** 2) / (width * 2.5066 * unusual)
    as_slow = np.where(unusual > 1.4, 0.27, 0.01)
    odds = (0.3 * as_usual + 0.7 * as_slow) / np.maximum(as_usual, 1e-6)
    return noise * around, np.minimum(0.9, slow * odds)
