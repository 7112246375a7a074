"""Statistics of a matrix of series by nights: common components, who moved, how many are real.

* `two_way_fit`: a robust fit of rows and columns (Tukey's biweight, started from the median
  polish of his "Exploratory Data Analysis", 1977).
* `two_groups`: Efron's two-groups model (Statistical Science 23, 2008), with the spread between
  series of DerSimonian and Laird (Controlled Clinical Trials 7, 1986).
* `discoveries`: false discovery rate by e-values: e-BH within a night (Wang and Ramdas, Journal of
  the Royal Statistical Society B 84, 2022), e-LOND over nights (Xu and Ramdas, AISTATS 2024).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nightbench.detection.levels import NOISE_FLOOR
from nightbench.detection.robust import Floats, Indices, median, noise_of_differences

Mask = NDArray[np.bool_]
Name = TypeVar("Name")

SLACK = 0.003
"""Relative standard deviation of what series that did not move differ by all the same."""

OWN, OWN_WIDTH = 0.05, 1.0
"""Share of series that move by an amount of their own, and the range of the logarithm over which
these amounts are equally likely."""

OWN_CHANGED = 0.01
"""The same share of series that show a lasting change by themselves. A slow night is none, and a
change of its own begins on one of three hundred nights, here on one of three."""

WILD = 4.5
"""Log likelihood that a slow night costs at most: three standard deviations."""

_BIWEIGHT = 4.685
"""Tukey's constant: 95 % efficiency on normal noise."""

SMALLEST_GROUP = 3
"""Fewest series that a change is shared by."""


@dataclass(frozen=True)
class TwoGroups:
    """A split of series into those with a common step and those without."""

    moved: Floats
    """Probability that each series has the common step."""
    steps: Floats
    """Step of each series if it has the common one, shrunk towards that one by its error."""
    step: float
    """The common step."""
    gain: float
    """Log likelihood ratio against no common component."""
    error: float
    """Standard error of the common step."""


def two_groups(
    steps: Floats, errors: Floats, starts: Sequence[float], changed_alone: Mask
) -> list[TwoGroups]:
    """Return which series changed together, by expectation maximisation from several starts.

    Args:
        steps: starts by series, as logarithms.
        errors: their standard errors.
        starts: where each common step is looked for.
        changed_alone: whether each series shows a change on that start's night by itself.
    """
    variance = errors**2
    still = _normal(steps**2, variance + SLACK**2)
    alone: Floats = np.where(changed_alone, OWN_CHANGED, OWN)
    own = alone / OWN_WIDTH
    elsewhere = own / (1 - alone)
    step: Floats = np.array(starts, dtype=float)[:, None]
    between, share = (SLACK + np.abs(step) / 10) ** 2, np.full_like(step, 0.7)
    distance = (steps - step) ** 2
    for _ in range(30):
        total = variance + between
        with_it = share * _normal(distance, total)
        moved = with_it / (with_it + (1 - share) * still + elsewhere)
        weights = moved / total
        weight = weights.sum(axis=1, keepdims=True)
        some = weight > 0
        mean = (weights * steps).sum(axis=1, keepdims=True) / np.where(some, weight, 1.0)
        step = np.where(some, mean, step)
        distance = (steps - step) ** 2
        portion = np.clip(moved.mean(axis=1, keepdims=True), 0.02, 0.98)
        spread = np.maximum(_between(distance, variance, moved), SLACK**2)
        share, between = np.where(some, portion, share), np.where(some, spread, between)
    total = variance + between
    with_it = share * _normal(distance, total)
    mixed = np.log((1 - alone) * (with_it + (1 - share) * still) + own)
    gain = (mixed - np.log((1 - alone) * still + own)).sum(axis=1)
    error = 1 / np.sqrt(np.maximum((moved / total).sum(axis=1), 1.0))
    shrunk = step + between / total * (steps - step)
    return [
        TwoGroups(moved[k], shrunk[k], float(step[k, 0]), float(gain[k]), float(error[k]))
        for k in range(len(starts))
    ]


def fit_of_step(values: Floats, steps: Floats, noise: Floats, first: int) -> float:
    """Return the log likelihood that rows gain by a step on a night; 0 if no night is known.

    Args:
        values: distances from the level before, rows by nights; NaN if there is none.
        steps: of each row.
        noise: of each row.
        first: the night.
    """
    off = values - steps[:, None] * (np.arange(values.shape[1]) >= first)
    without, with_it = (np.minimum((x / noise[:, None]) ** 2 / 2, WILD) for x in (values, off))
    return float(np.nansum(without - with_it))


def changes_of_several(changes: Collection[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return nights from which on several series change in one sense, with the median step.

    Args:
        changes: night and step of each series that shows a change by itself.
    """
    found = []
    for first, down in sorted({(first, step < 0) for first, step in changes}):
        steps = [step for night, step in changes if abs(night - first) <= 1 and (step < 0) == down]
        if len(steps) >= SMALLEST_GROUP:
            found.append((first, median(np.array(steps))))
    return found


def _between(distance: Floats, variance: Floats, moved: Floats) -> Floats:
    """Variance of the steps beyond that of their errors (DerSimonian and Laird)."""
    weights = moved / variance
    total = np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    excess = (weights * distance).sum(axis=1, keepdims=True)
    excess -= moved.sum(axis=1, keepdims=True) - 1
    squares = (weights**2).sum(axis=1, keepdims=True)
    between: Floats = np.maximum(0.0, excess / np.maximum(total - squares / total, 1e-12))
    return between


def _normal(distance: Floats, variance: Floats) -> Floats:
    """Density of normal values by their squared distance from the mean."""
    density: Floats = np.exp(-0.5 * distance / variance) / np.sqrt(2 * math.pi * variance)
    return density


def two_way_fit(values: Floats, noise: Floats) -> tuple[Floats, Mask]:
    """Return the component of each night that series have in common, and its known nights.

    Args:
        values: logarithms, series by nights; NaN if there is none.
        noise: relative standard deviation of each series from night to night.

    Returns:
        A logarithm for each night, its median 0; known of nights that half of the series have, and
        three of them at least.
    """
    given = np.isfinite(values)
    count = given.sum(axis=0)
    known: Mask = count >= max(SMALLEST_GROUP, 0.5 * float(np.median(count[count > 0])))
    common: Floats = np.zeros(values.shape[1])
    if not known.any():
        return common, known
    filled = np.where(given, values, 0.0)
    usual = float(np.median(noise))
    weight = given / (noise**2 + usual**2)[:, None]
    limit = _BIWEIGHT * np.hypot(noise, usual)[:, None]

    def mean_off(axis: int) -> Floats:
        """Return the robust mean of the distances from level and common."""
        off = filled - level[:, None] - common
        robust = np.maximum(1 - (off / limit) ** 2, 0.0) ** 2 * weight
        mean: Floats = (robust * off).sum(axis=axis) / (robust.sum(axis=axis) + 1e-12)
        return mean

    level, _ = nan_median(np.where(given & known, values, np.nan), axis=1)
    common[known], _ = nan_median(values[:, known] - level[:, None], axis=0)
    for _ in range(6):
        level = level + mean_off(1)
        common = common + mean_off(0)
    common = common - np.median(common[known])
    return common, known


def discoveries(log_e: Mapping[Name, float], tests: int, rate: float, nights: int) -> set[Name]:
    """Return what holds at a false discovery rate over a night and over so many nights.

    Each night has an equal part of the rate, and within it e-values decide by their rank. However
    much tests and nights depend on each other, the expected share of false ones among all that is
    found in these nights is `rate` at most.

    Args:
        log_e: logarithms of e-values: under no change their mean is 1 at most.
        tests: of the night, those without an e-value included.
        rate: false discovery rate.
        nights: over which it holds.
    """
    ordered = sorted(log_e, key=lambda name: -log_e[name])
    last = 0
    for k, name in enumerate(ordered, start=1):
        if log_e[name] >= math.log(tests * nights / (rate * k)):
            last = k
    return set(ordered[:last])


def row_noise(values: Floats) -> Floats:
    """Standard deviation of each row, from differences of its neighbouring nights."""
    noise = [noise_of_differences(row[np.isfinite(row)]) for row in values]
    return np.maximum(noise, NOISE_FLOOR)


def nan_median(values: Floats, axis: int) -> tuple[Floats, Indices]:
    """Median without NaN, 0 if there is nothing else, and how many values it is of."""
    ordered = np.sort(values, axis=axis)
    count = np.isfinite(values).sum(axis=axis)
    low, high = np.maximum(count - 1, 0) // 2, count // 2
    high = np.minimum(high, values.shape[axis] - 1)
    taken = [
        np.take_along_axis(ordered, np.expand_dims(at, axis), axis).squeeze(axis)
        for at in (low, high)
    ]
    return np.where(count > 0, (taken[0] + taken[1]) / 2, 0.0), count


def column_median(values: Floats) -> Floats:
    """Median of each night; NaN if no series has a value."""
    middle, count = nan_median(values, axis=0)
    return np.where(count > 0, middle, np.nan)


def known_median(values: Floats) -> float:
    """Median without NaN; NaN if there is nothing else."""
    known = values[np.isfinite(values)]
    return median(known) if len(known) else math.nan


def commonest(states: Indices) -> int:
    """Return the commonest state; 0 if none is known."""
    known = states[states > 0]
    return int(np.bincount(known).argmax()) if len(known) else 0
