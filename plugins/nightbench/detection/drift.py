"""Detects drift: a slow, steady change of a series that is not a step, and where it began."""

import math
from dataclasses import dataclass, replace

import numpy as np

from nightbench.detection.levels import FEWEST_FOR_DRIFT as FEWEST
from nightbench.detection.levels import LevelEstimate, estimate_level
from nightbench.detection.robust import Floats, noise_of_differences, winsorised
from nightbench.detection.series import Series

CLEAR = 4.0
"""Standard errors of the slope from which a drift is reported."""

STRAIGHT = 1.5
"""Largest scatter around the line in multiples of the noise: steps scatter further."""

SMALLEST = 0.005
"""Smallest relative change over the whole drift that is reported."""

BENDS = 60
"""Most nights that are tried as the beginning of a drift."""

CLEARER = 6.0
"""Decrease of the squared residuals, in their variance, from which a series is level first and
drifts later, not from its first night on."""


@dataclass(frozen=True)
class Drift:
    """A linear change of the logarithm over a stretch without a step, up to the last night."""

    first: int
    """First night of the drift; the first night that was looked at, if it began before."""
    nights: int
    """From the first night to the last one."""
    change: float
    """Relative change from its first to its last night."""
    error: float
    """Standard error of `change`."""

    def inverted(self) -> "Drift":
        """Return the same drift of 1 / value."""
        return replace(self, change=1 / (1 + self.change) - 1)


def drift_of(
    series: Series, start: int = 0, described: LevelEstimate | None = None
) -> Drift | None:
    """Return the drift of the nights from `start` on; None if there is none.

    The series is level until the drift begins. The error accounts for noise that is correlated over
    a few nights, which plain least squares takes for a slope. `described` is `estimate_level` of
    these nights, if it is known.
    """
    nights = len(series) - start
    if nights < FEWEST:
        return None
    values = (described or estimate_level(series.part(start, len(series)))).values
    noise = max(noise_of_differences(values), 1e-4)
    values = winsorised(values, noise)
    day = series.day[start:]
    bend = _bend(values, day)
    run = np.maximum(day - day[bend], 0.0)
    length = float(run[-1])
    run -= run.mean()
    spread = float((run**2).sum())
    if spread <= 0:
        return None
    slope = float((run * values).sum()) / spread
    left = values - values.mean() - slope * run
    squares = float((left**2).sum())
    variance = squares / (nights - 2)
    if math.sqrt(variance) > STRAIGHT * noise or squares > _squares_of_step(values):
        return None
    alike = float((left[1:] * left[:-1]).sum()) / max(squares, 1e-300)
    alike = min(max(alike, 0.0), 0.9)
    error = math.sqrt(variance / spread * (1 + alike) / (1 - alike)) * length
    change = slope * length
    if abs(change) < max(SMALLEST, CLEAR * error):
        return None
    # A step that the level search did not find is no drift: both halves must have the slope.
    half = (bend + nights) // 2
    halves = [
        float(np.polyfit(day[part], values[part], 1)[0]) * math.copysign(1.0, slope)
        for part in (slice(bend, half), slice(half, nights))
    ]
    if min(halves) <= 0:
        return None
    return Drift(start + bend, nights - bend, math.expm1(change), error)


def _bend(values: Floats, day: Floats) -> int:
    """Return the night from which a straight line follows a level best; 0 for a line throughout."""
    last = len(values) - FEWEST
    bends = np.arange(0, last + 1, max(1, last // BENDS))
    runs = np.maximum(day[None, :] - day[bends, None], 0.0)
    runs -= runs.mean(axis=1, keepdims=True)
    centred = values - values.mean()
    spread = np.maximum((runs**2).sum(axis=1), 1e-12)
    squares = float((centred**2).sum()) - (runs @ centred) ** 2 / spread
    best = int(np.argmin(squares))
    variance = float(squares[best]) / len(values)
    return int(bends[best]) if squares[0] - squares[best] > CLEARER * variance else 0


def _squares_of_step(values: Floats) -> float:
    """Return the squared residuals of the two levels that describe the values best."""
    centred = values - values.mean()
    before = np.arange(1, len(values))
    sums = np.cumsum(centred)[:-1]
    explained = sums**2 * (1 / before + 1 / (len(values) - before))
    return float((centred**2).sum() - explained.max())
