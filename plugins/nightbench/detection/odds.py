"""Weighs a lasting change of the level against its alternatives.

Three alternatives explain the last nights without a lasting change:

* noise: the nights belong to the present level, whose drift continues;
* scattered nights: the series is at the other level on single nights, at its usual rate;
* an excursion: the series is at the other level for several nights and returns.

The odds against a change are the sum of the odds of the three. The constants are the same for all
series; `docs/evaluation.md` shows by which histories they were chosen and checked.
"""

import math

import numpy as np

from nightbench.detection.evidence import Evidence
from nightbench.detection.excursions import Excursions

RARE = 7.0
"""Logarithm of the prior odds against a lasting change, compared with noise: one night in 1,100."""

SCATTERED = 11.5
"""The same against scattered nights. Their likelihood takes the size of the change that fits best,
the change's own averages over all sizes; the difference is the larger part of this constant."""

SINGLE_NIGHTS, SINGLE_WEIGHT = 0.5, 30.0
"""Prior of nights at the other level: 0.5 in 30."""

LASTING = 6.2
"""The logarithm of the nights in which one lasting change is expected, compared with excursions."""

EXCURSIONS, EXCURSIONS_WEIGHT = 0.02, 60.0
"""Prior of excursions: 0.02 in 60 nights."""

STAYS, RETURNS = 0.5, 1.0
"""Prior of a night of an excursion: 0.5 stay, 1 returns."""

CLEAR, OVERLOOKED = 5.0, 0.7
"""Excursions that are not deeper than so many noise scales may have been overlooked: for each scale
less, excursions are likelier by this logarithm."""

EPISODE, ALIKE, OUTLASTED, WEEKS = 6.0, 1.4, 1.5, 14
"""Two excursions and more are episodes of one length if they last EPISODE nights on average and the
longest is at most ALIKE times as long. A new level is not one of them if it has lasted OUTLASTED
times as long as the longest, and WEEKS nights."""

UNSETTLED = 4.0
"""Excursions are likelier by this logarithm if the level changed within the window."""


def log_odds(evidence: Evidence, least: float = -math.inf) -> float:
    """Return the log odds of a lasting change; the change is reported above 0.

    If noise alone holds the odds at `least` or below, the result is an upper bound: the
    alternatives that take longer to compute can only lower it.
    """
    noise = RARE - evidence.factor
    if noise >= -least:
        return -noise
    return -float(np.logaddexp(odds_of_no_new_level(evidence), _odds_of_excursion(evidence)))


def odds_of_no_new_level(evidence: Evidence) -> float:
    """Return the log odds of noise and scattered nights, against any stay at the new level.

    They date a change: the odds of an excursion also depend on how long it has lasted.
    """
    return float(np.logaddexp(RARE - evidence.factor, _odds_of_scattered_nights(evidence)))


def _odds_of_scattered_nights(evidence: Evidence) -> float:
    past = evidence.past
    rate = (SINGLE_NIGHTS + past.away) / (SINGLE_WEIGHT + past.away + past.elsewhere)
    at_old_level = np.minimum(evidence.shift.usual - evidence.shift.moved, 60.0)
    return SCATTERED + float(np.log(rate + (1 - rate) * np.exp(at_old_level)).sum())


def _odds_of_excursion(evidence: Evidence) -> float:
    past = evidence.past
    if _is_longer_than_excursions(past, evidence.after):
        return -math.inf
    rate = (EXCURSIONS + past.count) / (EXCURSIONS_WEIGHT + past.elsewhere)
    stays, returns = STAYS + past.nights - past.count, RETURNS + past.count
    nights = evidence.after - 1
    lasts = (
        math.lgamma(stays + nights)
        - math.lgamma(stays)
        + math.lgamma(stays + returns)
        - math.lgamma(stays + returns + nights)
    )
    overlooked = OVERLOOKED * max(0.0, CLEAR - evidence.distinct)
    unsettled = UNSETTLED if evidence.before.is_unsettled else 0.0
    return LASTING + math.log(rate) + lasts + overlooked + unsettled


def _is_longer_than_excursions(past: Excursions, nights: int) -> bool:
    """Return whether a stay is longer than episodes of about one length.

    Two slow weeks, twice, do not make a month an excursion.
    """
    usual = past.nights / max(past.count, 1)
    return (
        past.count >= 2
        and usual >= EPISODE
        and past.longest <= ALIKE * usual
        and nights >= max(OUTLASTED * past.longest, WEEKS)
    )
