"""Weighs evidence: the odds of a lasting change against its alternatives.

The odds against a change are the sum of four: no change with the drift continued, no change
without drift, a visit as long as those of the past (its length alone counts), and a visit with
interruptions (every night counts: a chain of two states). The weights were optimised on simulated
histories for alerts that are right, early and few; see
`docs/adr/0011-who-accepts-a-change.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nightbench.detection.evidence import Evidence
from nightbench.detection.visits import Visits

CLEAR = 6.0
"""Noise scales from which a change is accepted with a shorter past."""


@dataclass(frozen=True)
class Weights:
    """Coefficients of the odds; `visit_*` of the stay's length, `chain_*` of the two states."""

    drifting: float
    drifting_threshold: float
    steady: float
    steady_threshold: float
    visit_first: float
    """Logarithm of the visits believed before any is seen, and of the nights they rest on."""
    visit_nights: float
    visit_stay: float
    """Logarithms of the two counts of the beta distribution of staying another night."""
    visit_leave: float
    depth: float
    """Logarithm of how much rarer deep visits are than shallow ones."""
    visit: float
    chain: float
    indistinct: float
    """How much less the chain says of changes below three noise scales."""
    chain_stay: float
    chain_leave: float
    chain_first: float
    chain_nights: float
    young: float
    """Doubt about a level that eight nights stand for."""
    seen: float
    """Logarithm of the visits to a depth after which it is half as rare as `depth` says."""
    before: float
    """How much of a visit an earlier level is that lay there."""


WEIGHTS = Weights(
    drifting=0.939,
    drifting_threshold=3.250,
    steady=0.229,
    steady_threshold=0.362,
    visit_first=0.725,
    visit_nights=-5.718,
    visit_stay=-2.357,
    visit_leave=0.206,
    depth=3.544,
    visit=8.328,
    chain=7.934,
    indistinct=2.300,
    chain_stay=-0.066,
    chain_leave=-1.162,
    chain_first=-1.674,
    chain_nights=4.877,
    young=10.187,
    seen=1.005,
    before=0.15,
)


def log_odds(evidence: Evidence, weights: Weights = WEIGHTS) -> float:
    """Logarithm of the odds that the level has changed for good; accepted above 0."""
    w = weights
    nothing = _sum_of_odds(
        w.drifting_threshold - w.drifting * evidence.drifting,
        w.steady_threshold - w.steady * evidence.steady,
    )
    distinct = abs(evidence.step) / evidence.noise
    nothing += w.young * 8 / evidence.reference * min(1.0, CLEAR / distinct)
    unseen = math.exp(w.seen)
    visits = evidence.visits.towards(evidence.visits_before, w.before)
    rarity = abs(evidence.step) * math.exp(w.depth) * unseen / (unseen + visits.count)
    return -_sum_of_odds(
        _sum_of_odds(nothing, _one_stay(evidence, visits, w) + w.visit - rarity),
        _chain(evidence, visits, w) + w.chain - rarity - w.indistinct * max(0.0, 3 - distinct),
    )


def _sum_of_odds(one: float, other: float) -> float:
    high, low = max(one, other), min(one, other)
    return high + math.log1p(math.exp(low - high))


def _one_stay(evidence: Evidence, visits: Visits, w: Weights) -> float:
    """Log rate of visits, times the probability that one lasts as long as this one has."""
    rate = (math.exp(w.visit_first) + visits.count) / (math.exp(w.visit_nights) + visits.elsewhere)
    stay = math.exp(w.visit_stay) + visits.nights - visits.count
    leave = math.exp(w.visit_leave) + visits.count
    nights = evidence.after - 1
    lasts = (
        math.lgamma(stay + nights)
        - math.lgamma(stay)
        + math.lgamma(stay + leave)
        - math.lgamma(stay + leave + nights)
    )
    return math.log(rate) + lasts


def _chain(evidence: Evidence, visits: Visits, w: Weights) -> float:
    """Log likelihood of the nights as coming and going, against staying at the new level."""
    first, stay = math.exp(w.chain_first), math.exp(w.chain_stay)
    go = min(
        0.9,
        (first + visits.count) / (math.exp(w.chain_nights) + first + visits.elsewhere),
    )
    hold = (stay + visits.nights - visits.count) / (stay + math.exp(w.chain_leave) + visits.nights)
    home, away, scale = 1.0, 0.0, 0.0
    for usual, moved in zip(evidence.usual, evidence.moved, strict=True):
        top = max(usual, moved)
        home, away = (
            (home * (1 - go) + away * (1 - hold)) * math.exp(usual - top),
            (home * go + away * hold) * math.exp(moved - top),
        )
        total = home + away
        if total <= 0.0:
            return -math.inf
        home, away, scale = home / total, away / total, scale + math.log(total) + top - moved
    return scale
