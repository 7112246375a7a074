"""Bayes factors of a change of level against none: all its sizes at once, on a grid of steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from nightbench.detection.excursions import TAILS
from nightbench.detection.robust import Z_90, Floats, list_of

SMALLEST = 0.004
"""Smallest relative change that is considered."""

SLOW_DEPTH, FAST_DEPTH = 0.08, 0.04
"""Mean relative depth of slow nights, and of fast ones, which are a tenth of the outliers."""

WIDER = 1.09
"""By how much the intervals of steps are widened for what their model of noise leaves out."""

UNEXPLAINED = 12.0
"""Standard errors of the level beyond which it explains nothing: 1e-31."""

FAR = 10.0
"""Largest distance whose exponentials are distinguished: products of two of them are finite."""

_COARSE: Floats = np.concatenate(
    [-np.geomspace(0.002, 3.0, 60)[::-1], [0.0], np.geomspace(0.002, 3.0, 60)]
)
_FINE: Floats = np.linspace(-5.0, 5.0, 41)
_USUAL_RANGE = math.log(0.4 / SMALLEST)
"""Sizes are equally likely on a logarithmic scale; changes beyond 0.4 are not counted on."""
_CORE = math.exp(
    math.lgamma((TAILS + 1) / 2) - math.lgamma(TAILS / 2) - 0.5 * math.log(TAILS * math.pi)
)


@dataclass(frozen=True)
class BayesFactor:
    """A change of one sign against none; logarithms are natural."""

    log_factor: float
    step: float
    """Posterior mean of the change of the logarithm."""
    ends_of: Callable[[], tuple[float, float]]
    """Finds the 90 % interval of it, with the error of the level before; few are asked for."""
    usual: Floats
    """Log density of each night at the old level."""
    moved: Floats
    """The same at the new level."""

    @cached_property
    def ends(self) -> tuple[float, float]:
        """90 % interval of the step."""
        return self.ends_of()


def bayes_factors(
    distances: Floats, level_variance: float, sign: int, sigma: Floats, slow: Floats, ess: float
) -> list[BayesFactor]:
    """Return the evidence for changes of `sign` against none, on a grid of steps.

    Args:
        distances: of each night from the level, a row for each change.
        level_variance: of the level.
        sign: -1 for drops, +1 for increases.
        sigma: noise of each night.
        slow: probability of each night that it is a slow one.
        ess: effective sample size of a night.
    """
    grid, cell = _grid(distances, float(sigma.mean()), level_variance, sign)
    sigma, slow = sigma[:, None], slow[:, None]
    density = _density(distances, grid, sigma, slow)
    # Noise has heavy tails: a product of eight densities cannot underflow.
    eights = range(0, distances.shape[1], 8)
    products = [np.multiply.reduce(density[:, k : k + 8], axis=1) for k in eights]
    total = np.log(products).sum(axis=0)
    likelihood = np.exp(total - total.max(axis=1, keepdims=True))
    nothing = np.exp(-0.5 * grid**2 / level_variance) * cell
    change = np.where(sign * grid > SMALLEST, cell / np.maximum(np.abs(grid), 1e-9), 0.0)
    change /= _USUAL_RANGE
    posterior = likelihood * change
    evidence = posterior.sum(axis=1) + 1e-300
    none = (likelihood * nothing).sum(axis=1) / nothing.sum(axis=1) + 1e-300
    factors = list_of(np.log(evidence) - np.log(none))
    steps = list_of((posterior / evidence[:, None] * grid).sum(axis=1))
    best = np.argmax(np.where(change > 0, total, -np.inf), axis=1)
    margin = Z_90 * math.sqrt(level_variance)
    row = np.arange(len(grid))
    usual = np.log(density[row, :, (grid < 0).sum(axis=1)])
    moved = np.log(density[row, :, best])
    found = []
    for k, (factor, step) in enumerate(zip(factors, steps, strict=True)):
        # Autocorrelated nights contain less information about the size.
        ends = partial(_ends, likelihood[k], ess, change[k], grid[k], step, margin)
        found.append(BayesFactor(factor, step, ends, usual[k], moved[k]))
    return found


def _ends(
    likelihood: Floats, ess: float, change: Floats, grid: Floats, step: float, margin: float
) -> tuple[float, float]:
    """Return the 90 % interval of a step, including the uncertainty of the level before."""
    reached = np.cumsum(likelihood**ess * change)
    reached /= reached[-1] + 1e-300
    low, high = list_of(np.interp((0.05, 0.95), reached, grid))
    return (
        step - WIDER * math.hypot(low - step, margin),
        step + WIDER * math.hypot(high - step, margin),
    )


def _density(distances: Floats, grid: Floats, sigma: Floats, slow: Floats) -> Floats:
    """Return the density of each night at each step of its row: shape (rows, nights, steps).

    Exponentials are of nights and of steps by themselves, and multiplied.
    """
    near, far = np.clip(distances, -FAR, FAR), np.clip(grid, -FAR, FAR)
    slower = slow * (0.9 / SLOW_DEPTH) * np.exp(near / SLOW_DEPTH)[:, :, None]
    faster = slow * (0.1 / FAST_DEPTH) * np.exp(near / -FAST_DEPTH)[:, :, None]
    off = distances[:, :, None] - grid[:, None, :]
    density = np.where(
        off < 0,
        slower * np.exp(far / -SLOW_DEPTH)[:, None, :],
        faster * np.exp(far / FAST_DEPTH)[:, None, :],
    )
    # Noise, to the power of (TAILS + 1) / 2; in place, as these are the largest arrays.
    off *= 1 / (sigma * math.sqrt(TAILS))
    off *= off
    off += 1
    spread = off * off
    spread *= off
    density += np.divide((1 - slow) * _CORE / sigma, spread, out=spread)
    return density


def _grid(
    distances: Floats, sigma: float, level_variance: float, sign: int
) -> tuple[Floats, Floats]:
    """Return the steps that are tried for each row, and their widths.

    Steps in the other direction that the error of the level cannot explain are left out.
    """
    nights = distances.shape[1]
    ordered = np.sort(distances, axis=1)
    middle = 0.5 * (ordered[:, (nights - 1) // 2] + ordered[:, nights // 2])
    grid = np.empty((len(distances), len(_COARSE) + len(_FINE)))
    grid[:, : len(_COARSE)] = _COARSE
    grid[:, len(_COARSE) :] = middle[:, None] + sigma / math.sqrt(nights) * _FINE
    grid.sort(axis=1)
    cell = np.empty_like(grid)
    cell[:, 1:-1] = (grid[:, 2:] - grid[:, :-2]) / 2
    cell[:, 0], cell[:, -1] = grid[:, 1] - grid[:, 0], grid[:, -1] - grid[:, -2]
    reach = UNEXPLAINED * math.sqrt(level_variance)
    if sign < 0:
        kept = slice(0, int((grid <= reach).sum(axis=1).max()))
    else:
        kept = slice(int((grid < -reach).sum(axis=1).min()), grid.shape[1])
    return grid[:, kept], cell[:, kept]
