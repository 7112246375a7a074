"""Two builds beside each other: the ratio of their throughputs, and what it means. Pure.

A round (see `rounds`) is one launch of each build on the same nodes. Its figure is the logarithm of
B's throughput over A's, so that what both launches had in common (the hour, the node, a neighbour
that stays) falls out.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

CONFIDENCE = 0.95

LEAST_ROUNDS = 3
"""A t interval of two values covers anything."""

_EXACT = 16
"""Rounds up to which all signs are tried; beyond, so many are drawn:"""
_DRAWN = 20_000


class Outcome(StrEnum):
    """What B is, beside A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Estimate:
    """B's throughput over A's, with its interval."""

    n: int
    """Rounds."""
    ratio: float | None
    """Geometric mean over the rounds; None without a round."""
    low: float | None
    """Bounds of the interval by the t distribution on the logarithms; None for n < 3."""
    high: float | None
    level: float
    """Confidence of the interval."""
    p_value: float | None
    """Exact sign-flip test of the ratio being 1, two-sided; None for n < 3."""
    outcome: Outcome
    sentence: str
    se: float | None = None
    """Standard error of the mean logarithm."""


def estimate(
    ratios: Sequence[float], min_effect: float, level: float = CONFIDENCE, seed: int = 0
) -> Estimate:
    """Judge the ratios of rounds.

    `slower` and `faster` need the whole interval beyond the smallest effect that matters, and, from
    six rounds on, a sign-flip test below 5 %; `same` needs the whole interval within it. All else
    is inconclusive. Swapping the builds swaps the words and nothing else.

    Args:
        ratios: B's throughput over A's of each round that counts.
        min_effect: the smallest effect that matters, .01 for 1 %.
        level: of the interval; higher where several cases are judged together, see `family_level`.
        seed: of the signs that are drawn where there are too many rounds to try all.
    """
    n = len(ratios)
    logs = [math.log(ratio) for ratio in ratios]
    mean = math.exp(statistics.fmean(logs)) if logs else None
    if n < LEAST_ROUNDS:
        said = f"{n} rounds say nothing; at least {LEAST_ROUNDS} are needed"
        return Estimate(n, mean, None, None, level, None, Outcome.INCONCLUSIVE, said)
    centre = statistics.fmean(logs)
    se = statistics.stdev(logs) / math.sqrt(n)
    half = _t_quantile(n - 1, level) * se
    low, high = centre - half, centre + half
    p_value = sign_flip(logs, seed)
    outcome = _outcome(low, high, p_value, n, math.log1p(min_effect))
    said = _sentence(outcome, centre, low, high, n, min_effect, se, level)
    return Estimate(
        n, math.exp(centre), math.exp(low), math.exp(high), level, p_value, outcome, said, se
    )


def _outcome(low: float, high: float, p_value: float, n: int, margin: float) -> Outcome:
    # With fewer rounds no order of signs is rare enough: the interval alone decides.
    real = p_value <= 1 - CONFIDENCE or 2.0 ** (1 - n) > 1 - CONFIDENCE
    if high < -margin and real:
        return Outcome.SLOWER
    if low > margin and real:
        return Outcome.FASTER
    if -margin <= low and high <= margin:
        return Outcome.SAME
    return Outcome.INCONCLUSIVE


def _sentence(
    outcome: Outcome,
    centre: float,
    low: float,
    high: float,
    n: int,
    min_effect: float,
    se: float,
    level: float,
) -> str:
    size = percent(abs(math.expm1(centre)))
    if outcome in (Outcome.SLOWER, Outcome.FASTER):
        return f"B is {size} {outcome} than A: the whole interval lies beyond {percent(min_effect)}"
    if outcome is Outcome.SAME:
        return f"B is as fast as A: the whole interval lies within ±{percent(min_effect)}"
    if high < 0 or low > 0:
        word = "slower" if high < 0 else "faster"
        said = f"B is {word}, but it is not sure that by more than {percent(min_effect)}"
    else:
        said = f"The interval holds both no difference and one beyond {percent(min_effect)}"
    narrow = abs(math.log1p(min_effect) - abs(centre))
    enough = rounds_for(se * math.sqrt(n), narrow, level)
    return f"{said}; about {enough} rounds would tell" if enough is not None else said


def percent(fraction: float) -> str:
    """Say a fraction as a percentage of at most three digits."""
    return f"{100 * fraction:.3g} %"


def rounds_for(deviation: float, half_width: float, level: float = CONFIDENCE) -> int | None:
    """Rounds whose interval would be so narrow; None where that is more than a thousand.

    Args:
        deviation: standard deviation of a round's logarithm.
        half_width: of the interval, on logarithms.
        level: of the interval.
    """
    if half_width <= 0:
        return None
    for n in range(LEAST_ROUNDS, 1001):
        if _t_quantile(n - 1, level) * deviation / math.sqrt(n) <= half_width:
            return n
    return None


def sign_flip(logs: Sequence[float], seed: int = 0) -> float:
    """P-value, two-sided, of the logarithms being as likely above nought as below.

    All signs are tried up to 16 values (so seven values give no less than 2/128); beyond, 20,000
    are drawn.
    """
    n = len(logs)
    sizes = [abs(value) for value in logs]
    seen = abs(math.fsum(logs)) * (1 - 1e-12)
    if n <= _EXACT:
        # The mirrored half of the signs gives the same sums.
        rest = product((1.0, -1.0), repeat=n - 1)
        hits = sum(
            abs(math.fsum([sizes[0], *map(float.__mul__, sizes[1:], signs)])) >= seen
            for signs in rest
        )
        return hits / 2.0 ** (n - 1)
    draw = random.Random(seed)
    hits = sum(
        abs(math.fsum(size if draw.random() < 0.5 else -size for size in sizes)) >= seen
        for _ in range(_DRAWN)
    )
    return (hits + 1) / (_DRAWN + 1)


def family_level(cases: int) -> float:
    """Confidence of each of several intervals that all hold together with 95 %."""
    return 1 - (1 - CONFIDENCE) / max(cases, 1)


@dataclass(frozen=True)
class Combined:
    """One figure for several cases, or why there is none."""

    estimate: Estimate | None
    why_not: str | None = None


def combine(estimates: Sequence[Estimate], min_effect: float) -> Combined:
    """The mean ratio over several cases, where they say the same.

    A mean hides cases that lie apart. So there is none where one case is slower and another
    faster, where a case has too few rounds, or where the cases differ by more than their intervals
    allow (Cochran's Q, below 5 %).
    """
    if len(estimates) < 2:
        return Combined(None)
    measured = [(e.ratio, e.se) for e in estimates if e.ratio is not None and e.se is not None]
    if len(measured) < len(estimates):
        return Combined(None, "a case has too few rounds")
    found = {each.outcome for each in estimates}
    if {Outcome.SLOWER, Outcome.FASTER} <= found:
        return Combined(None, "some cases are slower and others faster")
    centres = [math.log(ratio) for ratio, _ in measured]
    errors = [max(se, 1e-9) for _, se in measured]
    if _unlike(centres, errors):
        return Combined(None, "the cases differ by more than their intervals allow")
    k = len(measured)
    centre = statistics.fmean(centres)
    se = math.sqrt(math.fsum(e * e for e in errors)) / k
    # Welch and Satterthwaite: every case brings the freedom of its own rounds.
    freedom = math.fsum(e * e for e in errors) ** 2 / math.fsum(
        e**4 / (each.n - 1) for e, each in zip(errors, estimates, strict=True)
    )
    half = _t_quantile(freedom, CONFIDENCE) * se
    low, high = centre - half, centre + half
    n = sum(each.n for each in estimates)
    margin = math.log1p(min_effect)
    outcome = _outcome(low, high, 0.0, n, margin)
    said = _sentence(outcome, centre, low, high, n, min_effect, se, CONFIDENCE)
    return Combined(
        Estimate(
            n, math.exp(centre), math.exp(low), math.exp(high), CONFIDENCE, None, outcome, said, se
        )
    )


def _unlike(centres: Sequence[float], errors: Sequence[float]) -> bool:
    from scipy.special import chdtrc

    weights = [1 / (error * error) for error in errors]
    middle = math.fsum(w * c for w, c in zip(weights, centres, strict=True)) / math.fsum(weights)
    q = math.fsum(w * (c - middle) ** 2 for w, c in zip(weights, centres, strict=True))
    return float(chdtrc(len(centres) - 1, q)) < 1 - CONFIDENCE


def overall(outcomes: Sequence[Outcome]) -> Outcome:
    """One word for several cases: the worst one's."""
    if Outcome.SLOWER in outcomes:
        return Outcome.SLOWER
    if Outcome.INCONCLUSIVE in outcomes or not outcomes:
        return Outcome.INCONCLUSIVE
    return Outcome.FASTER if set(outcomes) == {Outcome.FASTER} else Outcome.SAME


def _t_quantile(freedom: float, level: float) -> float:
    # scipy takes half a second to import; most who import this module only read results.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2))
