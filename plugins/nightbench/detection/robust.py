"""Median and scale estimates that are robust against outliers."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

LAGS = 10
"""Nights over which neighbours may resemble each other."""

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.int64]

Z_90 = 1.6449
"""Standard deviations to both sides of the mean that hold 90 % of normal values."""

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation -> standard deviation, for normal noise."""


def list_of(values: Floats | Indices) -> list[Any]:
    """Return an array as lists of Python's numbers, with which loops are quicker."""
    numbers: list[Any] = values.tolist()  # type: ignore[assignment] # an array has dimensions
    return numbers


def median(values: Floats) -> float:
    """Return the median of at least one value; numpy's takes ten times as long on short arrays."""
    ordered = np.sort(values)
    n = len(ordered)
    return float(0.5 * (ordered[(n - 1) // 2] + ordered[n // 2]))


def scale(values: Floats) -> float:
    """Return the standard deviation, estimated from the median absolute deviation."""
    return MAD_TO_SIGMA * median(np.abs(values - median(values)))


def noise_of_differences(values: Floats) -> float:
    """Return the standard deviation, estimated from differences of neighbouring nights.

    Steps and slow drift do not affect it. 0.02 for fewer than 5 nights.
    """
    if len(values) < 5:
        return 0.02
    return MAD_TO_SIGMA * median(np.abs(np.diff(values))) / math.sqrt(2)


def running_median(values: Floats, half: int) -> Floats:
    """Return the running median over `half` nights to both sides; shorter at the ends."""
    windows, row, low, high = _windows(len(values), half)
    ordered = np.sort(np.append(values, np.nan)[windows], axis=1)  # NaN sorts to the end
    middle: Floats = 0.5 * (ordered[row, low] + ordered[row, high])
    return middle


@lru_cache(maxsize=1024)
def _windows(nights: int, half: int) -> tuple[Indices, Indices, Indices, Indices]:
    """Return the indices of each night's window, and the places of the median in its sorted values.

    The index behind the last night stands for what lies outside.
    """
    row = np.arange(nights)
    windows = row[:, None] + np.arange(-half, half + 1)
    outside = (windows < 0) | (windows >= nights)
    known = windows.shape[1] - outside.sum(axis=1)
    return np.where(outside, nights, windows), row, (known - 1) // 2, known // 2


def winsorised(values: Floats, sigma: float) -> Floats:
    """Return values clipped to 3.5 sigma around the running median of eleven nights."""
    middle = running_median(values, 5)
    clipped: Floats = np.clip(values, middle - 3.5 * sigma, middle + 3.5 * sigma)
    return clipped


def variance_inflation(values: Floats) -> float:
    """Return how much larger the variance of a mean is than that of as many independent nights.

    1 or more: nights that resemble their neighbours count for fewer than they are. Bartlett's
    weights on the autocorrelations of up to `LAGS` nights, outliers clipped.
    """
    if len(values) < 2 * LAGS:
        return 1.0
    centred = values - median(values)
    limit = 3 * MAD_TO_SIGMA * median(np.abs(centred)) + 1e-9
    calm = np.clip(centred, -limit, limit)
    calm = calm - calm.mean()
    alike = np.correlate(calm, calm, mode="full")[len(calm) - 1 : len(calm) + LAGS]
    if alike[0] <= 0:
        return 1.0
    weights = 1 - np.arange(1, LAGS + 1) / (LAGS + 1)
    return max(1.0, 1 + 2 * float((weights * alike[1:]).sum() / alike[0]))
