"""Statistics of two builds measured in rounds: the ratio of their throughputs, and a verdict. Pure.

A round (see `rounds`) is one launch of each build on the same nodes. Its value is the logarithm of
B's throughput over A's, so that whatever both launches had in common (the hour, the node, a lasting
neighbour) cancels out.
"""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from nightbench.config.experiment_requests import LEAST_ROUNDS, MOST_ROUNDS
from nightbench.core.statistics import CONFIDENCE, t_quantile

_EXACT = 16
"""Up to this many rounds all signs are tried; for more, `_DRAWN` of them are simulated."""
_DRAWN = 20_000

_POWER = 0.9
"""Share of comparisons of equal builds that the advised rounds decide."""


class PairedVerdict(StrEnum):
    """The verdict on B compared with A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class RatioEstimate:
    """B's throughput over A's, with its interval and verdict."""

    n: int
    """Rounds."""
    ratio: float | None
    """Geometric mean over the rounds; None without a round."""
    level: float
    """Confidence of the interval."""
    sentence: str
    """The verdict for people; an inconclusive one says how many rounds resolve `min_effect`."""
    verdict: PairedVerdict = PairedVerdict.INCONCLUSIVE
    low: float | None = None
    """Bounds of the interval by the t distribution on the logarithms; None for n < 3."""
    high: float | None = None
    p_value: float | None = None
    """Exact sign-flip test of the ratio being 1, two-sided; None for n < 3 or several cases."""
    se: float | None = None
    """Standard error of the mean logarithm."""


def estimate(
    ratios: Sequence[float], min_effect: float, level: float = CONFIDENCE, seed: int = 0
) -> RatioEstimate:
    """Return the mean ratio of rounds with its interval and verdict.

    `slower` and `faster` need the whole interval beyond the smallest effect that matters, and, from
    six rounds on, a sign-flip test below 5 %; `same` needs the whole interval within it. All else
    is inconclusive. Swapping the builds swaps the words and nothing else. `ratios` are B's
    throughput over A's of the rounds that count. `min_effect` is .01 for 1 %; the level is higher
    if several cases are judged together, see `family_level`. The seed is that of the random
    signs that are tried if there are too many rounds to try all.
    """
    n = len(ratios)
    logs = [math.log(ratio) for ratio in ratios]
    mean = math.exp(statistics.fmean(logs)) if logs else None
    if n < LEAST_ROUNDS:
        return RatioEstimate(n, mean, level, f"too few rounds: {n}; a verdict needs {LEAST_ROUNDS}")
    se = statistics.stdev(logs) / math.sqrt(n)
    p_value = sign_flip(logs, seed)
    return _estimate(statistics.fmean(logs), se, n - 1, n, min_effect, level, p_value)


def _estimate(
    centre: float,
    se: float,
    freedom: float,
    n: int,
    min_effect: float,
    level: float,
    p_value: float | None,
    cases: int = 1,
) -> RatioEstimate:
    half_width = t_quantile(freedom, level) * se
    low, high = centre - half_width, centre + half_width
    verdict = _verdict(low, high, p_value, n, math.log1p(min_effect))
    if verdict in (PairedVerdict.SLOWER, PairedVerdict.FASTER):
        size = percent(abs(math.expm1(centre)))
        sentence = (
            f"B is {size} {verdict} than A: the whole interval is beyond {percent(min_effect)}"
        )
    elif verdict is PairedVerdict.SAME:
        sentence = f"B is as fast as A: the whole interval is within ±{percent(min_effect)}"
    else:
        sentence = _advice(low, high, se, n / cases, min_effect, level)
    return RatioEstimate(
        n, math.exp(centre), level, sentence, verdict, math.exp(low), math.exp(high), p_value, se
    )


def _verdict(
    low: float, high: float, p_value: float | None, n: int, margin: float
) -> PairedVerdict:
    # With fewer rounds no order of signs is rare enough, so only the interval decides.
    alpha = 1 - CONFIDENCE
    significant = p_value is None or p_value <= alpha or 2.0 ** (1 - n) > alpha
    if high < -margin and significant:
        return PairedVerdict.SLOWER
    if low > margin and significant:
        return PairedVerdict.FASTER
    if -margin <= low and high <= margin:
        return PairedVerdict.SAME
    return PairedVerdict.INCONCLUSIVE


def _advice(
    low: float, high: float, se: float, rounds: float, min_effect: float, level: float
) -> str:
    size = percent(min_effect)
    if high < 0 or low > 0:
        word = "slower" if high < 0 else "faster"
        sentence = f"B is {word}, but possibly by less than {size}"
    else:
        sentence = f"The interval includes both no difference and a difference beyond {size}"
    enough = rounds_for(se * math.sqrt(rounds), min_effect, level)
    if enough is None:
        return f"{sentence}; resolving a difference of {size} takes more than {MOST_ROUNDS} rounds"
    if enough <= rounds:
        return f"{sentence}; more rounds would hardly help, because the difference is near {size}"
    return f"{sentence}; resolving a difference of {size} takes about {enough} rounds"


def percent(fraction: float) -> str:
    """Return a fraction as a percentage of at most three digits: `1.5 %`."""
    return f"{100 * fraction:.3g} %"


def rounds_for(deviation: float, min_effect: float, level: float = CONFIDENCE) -> int | None:
    """Return how many rounds resolve a difference of `min_effect`; None for more than a thousand.

    With so many, nine of ten comparisons of equal builds end as `same`, and nineteen of twenty with
    a difference of twice the effect end as `slower` or `faster`. The ratio that was seen has no
    part in it: it is the least certain value of a comparison that was too short. `deviation` is the
    standard deviation of a round's logarithm, `min_effect` .01 for 1 %.
    """
    for n in range(LEAST_ROUNDS, MOST_ROUNDS + 1):
        reach = t_quantile(n - 1, level) + t_quantile(n - 1, _POWER)
        if reach * deviation / math.sqrt(n) <= math.log1p(min_effect):
            return n
    return None


def sign_flip(logs: Sequence[float], seed: int = 0) -> float:
    """Return the two-sided p-value of the logarithms being as likely above zero as below.

    All signs are tried up to 16 values (so seven values give no less than 2/128); beyond, 20,000
    random ones.
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
    """Return the confidence of each of several intervals that hold together with 95 %."""
    return 1 - (1 - CONFIDENCE) / max(cases, 1)


@dataclass(frozen=True)
class CombinedEstimate:
    """One value for several cases, or why there is none."""

    estimate: RatioEstimate | None
    why_not: str | None = None


def combine(estimates: Sequence[RatioEstimate], min_effect: float) -> CombinedEstimate:
    """Return the mean ratio over several cases, if they agree.

    A mean hides differences between cases. So there is none if one case is slower and another
    faster, or a case has too few rounds. Nor is there one if cases differ by more than
    their intervals (Cochran's Q, below 5 %).
    """
    if len(estimates) < 2:
        return CombinedEstimate(None)
    measured = [(e.ratio, e.se) for e in estimates if e.ratio is not None and e.se is not None]
    if len(measured) < len(estimates):
        return CombinedEstimate(None, "a case has too few rounds")
    found = {each.verdict for each in estimates}
    if {PairedVerdict.SLOWER, PairedVerdict.FASTER} <= found:
        return CombinedEstimate(None, "some cases are slower and others faster")
    centres = [math.log(ratio) for ratio, _ in measured]
    errors = [max(se, 1e-9) for _, se in measured]
    if _differ(centres, errors):
        return CombinedEstimate(
            None, "the cases differ from each other by more than their intervals"
        )
    k = len(measured)
    centre = statistics.fmean(centres)
    se = math.sqrt(math.fsum(e * e for e in errors)) / k
    # Welch and Satterthwaite: every case adds the degrees of freedom of its rounds.
    freedom = math.fsum(e * e for e in errors) ** 2 / math.fsum(
        e**4 / (each.n - 1) for e, each in zip(errors, estimates, strict=True)
    )
    n = sum(each.n for each in estimates)
    return CombinedEstimate(_estimate(centre, se, freedom, n, min_effect, CONFIDENCE, None, k))


def _differ(centres: Sequence[float], errors: Sequence[float]) -> bool:
    from scipy.special import chdtrc

    weights = [1 / (error * error) for error in errors]
    middle = math.fsum(w * c for w, c in zip(weights, centres, strict=True)) / math.fsum(weights)
    q = math.fsum(w * (c - middle) ** 2 for w, c in zip(weights, centres, strict=True))
    return float(chdtrc(len(centres) - 1, q)) < 1 - CONFIDENCE


def overall(verdicts: Sequence[PairedVerdict]) -> PairedVerdict:
    """Return one verdict for several cases: the worst."""
    if PairedVerdict.SLOWER in verdicts:
        return PairedVerdict.SLOWER
    if PairedVerdict.INCONCLUSIVE in verdicts or not verdicts:
        return PairedVerdict.INCONCLUSIVE
    return PairedVerdict.FASTER if set(verdicts) == {PairedVerdict.FASTER} else PairedVerdict.SAME
