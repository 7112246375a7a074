"""How far repeats are apart: the values of a sample, and when there are enough of it.

A repeat is a fresh launch; the result is the median. The confidence half-width uses the t
distribution on the logarithms of the values.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from nightbench.core.model import Protocol

CONFIDENCE = 0.95

LEAST = 3
"""No case that ended early counts with fewer good repeats."""

LEAST_ADAPTIVE = 5
"""Fewer values say too little of their spread to stop on it."""


def describe(values: Sequence[float]) -> dict[str, Any]:
    """Return what a `Measurement` says of positive values: median, extremes, deviation, confidence.

    One value has no deviation; for the half-width see `half_width`.
    """
    n = len(values)
    if n == 0:
        return {"n": 0, "throughput": None}
    median = statistics.median(values)
    found: dict[str, Any] = {
        "n": n,
        "throughput": median,
        "minimum": min(values),
        "maximum": max(values),
    }
    if n > 1:
        found["mad"] = statistics.median(abs(value - median) for value in values)
        found["spread"] = (found["maximum"] - found["minimum"]) / median
        found["half_width"] = half_width(values)
    return found


def half_width(values: Sequence[float]) -> float | None:
    """Relative half-width of the 95 % interval of positive values; None for fewer than three.

    The interval is that of the mean of the logarithms by the t distribution: exp(h) - 1.
    """
    n = len(values)
    if n < 3:
        return None
    logs = [math.log(value) for value in values]
    return math.expm1(t_quantile(n - 1) * statistics.stdev(logs) / math.sqrt(n))


def wanted(protocol: Protocol) -> int:
    """Good repeats that a protocol asks for: all of a fixed one, the least of an adaptive one."""
    if not protocol.adaptive:
        return protocol.repeats
    return min(protocol.repeats, max(protocol.min_repeats or 0, LEAST_ADAPTIVE))


def enough(protocol: Protocol) -> int:
    """Good repeats from which a case counts that had to end early."""
    part = wanted(protocol) if protocol.adaptive else math.ceil(protocol.repeats / 2)
    return min(protocol.repeats, max(LEAST, part))


def close_enough(values: Sequence[float], protocol: Protocol) -> bool:
    """Whether an adaptive protocol needs no further repeat."""
    if protocol.confidence is None or len(values) < wanted(protocol):
        return False
    width = half_width(values)
    return width is not None and width <= protocol.confidence


def t_quantile(freedom: float, level: float = CONFIDENCE) -> float:
    """Return the half-width, in standard errors, of an interval of the t distribution."""
    # scipy takes half a second to import; most who import this module only read results.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2))
