"""Detects drift: a slow, steady change of a series that is not a step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nightbench.detection.levels import FEWEST_FOR_DRIFT as FEWEST
from nightbench.detection.levels import estimate_level
from nightbench.detection.robust import noise_of_differences, winsorised
from nightbench.detection.series import Series

CLEAR = 4.0
"""Standard errors of the slope from which a drift is reported."""

STRAIGHT = 1.5
"""Largest scatter around the line in multiples of the noise: steps scatter further."""

SMALLEST = 0.005
"""Smallest relative change over the whole stretch that is reported."""


@dataclass(frozen=True)
class Drift:
    """A linear change of the logarithm over a stretch without a step."""

    first: int
    """First night of the stretch."""
    nights: int
    change: float
    """Relative change from its first to its last night."""
    error: float
    """Standard error of `change`."""


def drift_of(series: Series, start: int = 0) -> Drift | None:
    """Return the drift since night `start` (the last change of level); None where there is none.

    The error accounts for noise that is correlated over a few nights, which plain least squares
    takes for a slope.
    """
    nights = len(series) - start
    if nights < FEWEST:
        return None
    values = estimate_level(series.part(start, len(series))).values
    noise = max(noise_of_differences(values), 1e-4)
    values = winsorised(values, noise)
    day = series.day[start:] - series.day[start:].mean()
    spread = float((day**2).sum())
    if spread <= 0:
        return None
    slope = float((day * (values - values.mean())).sum()) / spread
    left = values - values.mean() - slope * day
    variance = float((left**2).sum()) / (nights - 2)
    if math.sqrt(variance) > STRAIGHT * noise:
        return None
    alike = float((left[1:] * left[:-1]).sum()) / max(float((left**2).sum()), 1e-300)
    alike = min(max(alike, 0.0), 0.9)
    length = float(series.day[-1] - series.day[start])
    error = math.sqrt(variance / spread * (1 + alike) / (1 - alike)) * length
    change = slope * length
    # A step that the level search did not find is no drift: both halves must have the slope.
    half = nights // 2
    halves = [
        float(np.polyfit(day[part], values[part], 1)[0]) * math.copysign(1.0, slope)
        for part in (slice(0, half), slice(half, nights))
    ]
    if abs(change) < max(SMALLEST, CLEAR * error) or min(halves) <= 0:
        return None
    return Drift(start, nights, math.expm1(change), error)
