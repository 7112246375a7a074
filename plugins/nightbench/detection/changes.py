"""Finds the changes that the last night of a series shows.

A night is judged from a window of at most `LOOK_BACK` nights and nothing else.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from nightbench.detection.acceptance import log_odds
from nightbench.detection.evidence import Evidence, evidence_of, nights_before
from nightbench.detection.levels import NOISE_FLOOR, LevelEstimate, estimate_level
from nightbench.detection.robust import Floats
from nightbench.detection.series import Series
from nightbench.detection.siblings import Siblings

LOOK_BACK = 180
"""Largest window of nights that a judgement reads: bounds its time and memory."""

NIGHTS_READ = 2 * LOOK_BACK
"""Newest nights that are read of a history: the window, and what came before its segment."""

TAIL = 30
"""Last nights among which a change is looked for."""

LEAST_NIGHTS = 2
"""Fewest nights at a new level: one slow night is no regression."""

LEAST_REFERENCE = 5
"""Fewest nights of the level before."""

FEWEST = 8
"""Fewest nights of a window that is judged."""

SCREENING_THRESHOLD = 2.5
"""Standard errors of a step from which the evidence of a night is computed."""

CLEAR_STEP = 2.8
"""The same for a night without prior odds: none of 153 simulated ones below 3.3 was a change, but
on a series that drifts a rise of 10 % has less than 3 on its second night."""

SCREENED_NIGHTS = 3
"""Most nights, besides their neighbours, whose evidence is computed for each sign."""

UNLIKELY = -3.0
"""Log odds of what screening rules out."""

HOPELESS = -2.0
"""Log odds of a night below which the nights beside it are not tested."""

UNSURE = 7
"""Nights by which a change may have begun earlier or later than the night that shows it best."""

NEGLIGIBLE = 40.0
"""By how much the squared step of such a night falls short where it is not weighed: e^-20."""

_MILLIONFOLD = math.log(1e6)


@dataclass(frozen=True)
class Change:
    """A detected change of level; nights are indices into its series."""

    first: int
    """First night at the new level."""
    detected: int
    """Night with which it was detected."""
    change: float
    """new level / old level - 1."""
    low: float
    high: float
    """90 % interval of `change`."""
    baseline: float
    """Level before, in the series' unit."""
    noise: float
    """Relative standard deviation from night to night."""
    score: float
    """Log odds of a lasting change against its alternatives; accepted above 0. A rank, no
    calibrated probability: of detected simulated falls, nine in ten were right."""
    visits: int
    """Earlier stays at about the new level that ended."""
    after: int
    """Nights at the new level when it was detected."""
    reference: int
    """Nights of the level before that it was compared with."""

    @property
    def falls(self) -> bool:
        """True for a change to lower values."""
        return self.change < 0

    def may_reach(self, smallest: float) -> bool:
        """Return whether the interval holds relative changes of this size or more.

        A true change of just that size is estimated smaller in half of the cases: what counts is
        whether it can be ruled out.
        """
        return max(abs(self.low), abs(self.high)) >= smallest

    def inverted(self) -> "Change":
        """Return the same change of 1 / value."""
        return replace(
            self,
            change=1 / (1 + self.change) - 1,
            low=1 / (1 + self.high) - 1,
            high=1 / (1 + self.low) - 1,
            baseline=1 / self.baseline,
        )


@dataclass(frozen=True)
class NightExamined:
    """What the last night of a series shows."""

    changes: list[Change]
    """At most one fall and one rise, the highest score first."""
    past: LevelEstimate
    fall_odds: float
    rise_odds: float
    """Largest log odds of a fall and of a rise; `UNLIKELY` or more."""


def changes_of_last_night(
    series: Series, known: Floats | None = None, siblings: Siblings | None = None
) -> list[Change]:
    """Return the changes of `examine_last_night`."""
    examined = examine_last_night(series, known, siblings)
    return examined.changes if examined else []


def examine_last_night(
    series: Series, known: Floats | None = None, siblings: Siblings | None = None
) -> NightExamined | None:
    """Look for a change among the last nights of a series; None for fewer than `FEWEST` nights.

    Only the last `LOOK_BACK` nights are read.

    Args:
        series: the nights.
        known: prior log odds, for each night, that a change from it on lasts; 0 where None.
        siblings: what others say of the spread of a young series.
    """
    offset = max(0, len(series) - LOOK_BACK)
    window = series.part(offset, len(series))
    if len(window) < FEWEST:
        return None
    past = estimate_level(window)
    prior = np.zeros(len(window)) if known is None else known[offset:]
    scores = steps_of(past.calm, past)
    found = {sign: _search(window, past, sign * scores, prior, sign, siblings) for sign in (-1, 1)}
    changes = [
        _change(evidence, odds, offset, len(series) - 1)
        for odds, evidence in found.values()
        if evidence is not None and odds > 0
    ]
    changes.sort(key=lambda change: -change.score)
    return NightExamined(changes, past, found[-1][0], found[1][0])


def _search(
    window: Series,
    past: LevelEstimate,
    scores: Floats,
    prior: Floats,
    sign: int,
    siblings: Siblings | None,
) -> tuple[float, Evidence | None]:
    """Return the largest log odds of a change of one sign, and its evidence; `UNLIKELY` at least.

    `scores` are the steps in the direction of `sign`, `prior` the log odds before any evidence.
    """
    best: tuple[float, Evidence | None] = UNLIKELY, None
    tested: dict[int, Evidence] = {}

    def evidence_at(first: int) -> Evidence:
        if first not in tested:
            before = nights_before(window, past, first, siblings)
            tested[first] = evidence_of(before, past.values[first:], sign)
        return tested[first]

    def test(first: int) -> float:
        nonlocal best
        evidence = evidence_at(first)
        known = float(prior[first])
        odds = log_odds(evidence, UNLIKELY - known) + known
        if odds > best[0]:
            best = odds, evidence
        return odds

    for first in _screened(scores, prior):
        if first in tested:
            continue
        odds = test(first)
        for beside in (first - 1, first + 1):
            hopeful = odds > HOPELESS or prior[min(beside, len(prior) - 1)] > 0
            if hopeful and beside < len(scores) and scores[beside] and beside not in tested:
                test(beside)
    odds, likeliest = best
    if likeliest is None or odds <= 0:
        return best
    first = likeliest.before.first
    likely = np.flatnonzero((scores > 0) & (scores**2 > scores[first] ** 2 - NEGLIGIBLE))
    near = [n for n in map(int, likely) if 0 < abs(n - first) <= UNSURE]
    return odds, likeliest.averaged([evidence_at(night) for night in near])


def steps_of(calm: Floats, past: LevelEstimate) -> Floats:
    """Return the step at each night in standard errors; 0 where it cannot be computed.

    Args:
        calm: winsorised nights of the window that `past` describes, and of any after it.
        past: levels and noise.
    """
    nights = len(calm)
    noise = max(past.step_noise, 0.9 * past.level_noise, NOISE_FLOOR + 0.0005)
    scores = np.zeros(nights)
    first = np.arange(max(past.base + LEAST_REFERENCE, nights - TAIL), nights - LEAST_NIGHTS + 1)
    if not len(first):
        return scores
    start = np.maximum(past.base, first - 90)
    sums = np.concatenate([[0.0], np.cumsum(calm)])
    before, after = first - start, nights - first
    shift = (sums[-1] - sums[first]) / after - (sums[first] - sums[start]) / before
    scores[first] = shift / (noise * np.sqrt(1 / before + 1 / after))
    return scores


def _screened(scores: Floats, prior: Floats) -> list[int]:
    """Return the nights with the largest steps, three nights apart at least."""
    chosen: list[int] = []
    for first in map(int, np.argsort(-scores, kind="stable")[:12]):
        if scores[first] < SCREENING_THRESHOLD or len(chosen) == SCREENED_NIGHTS:
            break
        if scores[first] < CLEAR_STEP and prior[first] <= 0:
            continue
        if all(abs(first - other) > 2 for other in chosen):
            chosen.append(first)
    return chosen


def _relative(step: float) -> float:
    """Return a step of the logarithm as a fraction, limited to a factor of a million."""
    return math.expm1(max(-_MILLIONFOLD, min(step, _MILLIONFOLD)))


def _change(evidence: Evidence, score: float, offset: int, night: int) -> Change:
    before, shift, (low, high) = evidence.before, evidence.shift, evidence.shift.ends
    return Change(
        first=offset + before.first,
        detected=night,
        change=_relative(shift.step),
        low=_relative(low),
        high=_relative(high),
        baseline=math.exp(min(before.middle + before.line.level, 709.0)),
        noise=before.noise,
        score=score,
        visits=int(evidence.visits.count),
        after=evidence.after,
        reference=before.reference,
    )
