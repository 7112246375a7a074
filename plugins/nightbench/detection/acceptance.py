"""Weighs evidence: the odds of a lasting change against its alternatives.

The odds against a change are the sum of four: no change with the drift continued, no change
without drift, a visit as long as those of the past (its length alone counts), and a visit with
interruptions (every night counts: a chain of two states). The weights were optimised on simulated
histories for alerts that are right, early and few; see
`docs/adr/0011-who-accepts-a-change.md`.
"""

import math
from dataclasses import dataclass

from nightbench.detection.evidence import Evidence
from nightbench.detection.visits import Visits

CLEAR = 6.0
"""Noise scales from which a change is accepted with a shorter past."""

EPISODE, ALIKE, OUTLASTED, WEEKS, DISTINCT = 6.0, 1.4, 1.5, 14, 4.0
"""Two earlier visits and more are episodes of one length where they last so many nights in the
mean, the longest by this factor longer at most. What has outlasted the longest by this factor, has
lasted so many nights, and lies so many noise scales off is none of them."""


@dataclass(frozen=True)
class Weights:
    """Coefficients of the odds; `visit_*` of the stay's length, `chain_*` of the two states."""

    drifting: float = 0.885
    drifting_threshold: float = 0.618
    steady: float = 0.414
    steady_threshold: float = 0.671
    visit_first: float = -0.403
    """Logarithm of the visits believed before any is seen, and of the nights they rest on."""
    visit_nights: float = -4.542
    visit_stay: float = -2.837
    """Logarithms of the two counts of the beta distribution of staying another night."""
    visit_leave: float = 0.016
    depth: float = 3.489
    """Logarithm of how much rarer, as a logarithm too, visits of depth 1 are before any is seen."""
    visit: float = 8.704
    chain: float = 7.745
    indistinct: float = 1.614
    """How much less the chain says of changes below three noise scales."""
    chain_stay: float = 1.373
    chain_leave: float = -1.537
    chain_first: float = -3.036
    chain_nights: float = 1.243
    young: float = 13.78
    """Doubt about a level that eight nights stand for."""
    before: float = 0.081
    """How much of a visit an earlier level is that lay there."""


WEIGHTS = Weights()


def log_odds(evidence: Evidence, least: float = -math.inf) -> float:
    """Return the logarithm of the odds that the level has changed for good; accepted above 0.

    Odds that noise alone holds at `least` or below are returned as an upper bound: earlier visits,
    which take longer to count, could only lower them.
    """
    w, nothing = WEIGHTS, odds_of_noise(evidence)
    distinct = abs(evidence.shift.step) / evidence.before.noise
    if nothing >= -least or _outlasts(evidence.visits, evidence.after, distinct):
        return -nothing
    visits = evidence.visits.towards(evidence.visits_before, w.before)
    rarity = abs(evidence.shift.step) * math.exp(w.depth) / (1 + visits.count)
    return -_sum_of_odds(
        _sum_of_odds(nothing, _one_stay(evidence, visits, w) + w.visit - rarity),
        _chain(evidence, visits, w) + w.chain - rarity - w.indistinct * max(0.0, 3 - distinct),
    )


def odds_of_noise(evidence: Evidence) -> float:
    """Return the logarithm of the odds that nothing has changed, against a lasting change."""
    w = WEIGHTS
    nothing = _sum_of_odds(
        w.drifting_threshold - w.drifting * evidence.drifting,
        w.steady_threshold - w.steady * evidence.steady,
    )
    distinct = abs(evidence.shift.step) / evidence.before.noise
    return nothing + w.young * 8 / evidence.before.known * min(1.0, CLEAR / distinct)


def _outlasts(visits: Visits, nights: int, distinct: float) -> bool:
    """Return whether a stay is longer than episodes that were all about as long as each other.

    Their lengths say more than that stays end by chance: two weeks, twice, do not make a month a
    visit. A series that jumps between modes has stays of all lengths.
    """
    usual = visits.nights / max(visits.count, 1)
    return (
        visits.count >= 2
        and distinct >= DISTINCT
        and usual >= EPISODE
        and visits.longest <= ALIKE * usual
        and nights >= max(OUTLASTED * visits.longest, WEEKS)
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
    go = min(0.9, (first + visits.count) / (math.exp(w.chain_nights) + first + visits.elsewhere))
    hold = (stay + visits.nights - visits.count) / (stay + math.exp(w.chain_leave) + visits.nights)
    home, away, scale = 1.0, 0.0, 0.0
    for usual, moved in zip(evidence.shift.usual, evidence.shift.moved, strict=True):
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
