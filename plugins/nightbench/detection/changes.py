"""Finds the changes that the last night of a series shows.

A night is judged from a window of at most `LOOK_BACK` nights and nothing else.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from nightbench.detection.evidence import EarlierNoise, Evidence, evidence_of, reference_window
from nightbench.detection.levels import NOISE_FLOOR, LevelEstimate, estimate_level
from nightbench.detection.odds import log_odds, odds_of_no_new_level
from nightbench.detection.robust import Floats
from nightbench.detection.series import Series

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
"""The same for a night without prior odds. None of 153 simulated ones below 3.3 was a change. But
on a series that drifts an increase of 10 % has less than 3 on its second night."""

SCREENED_NIGHTS = 3
"""Most nights, besides their neighbours, whose evidence is computed for each sign."""

UNLIKELY = -3.0
"""Log odds of what screening rules out."""

HOPELESS = -5.0
"""Log odds of a night below which the neighbouring nights are not tested."""

RETURNED = 0.5
"""Part of a change that is left if the series has returned: that is no second change."""

UNSURE = 7
"""Nights by which a change may have begun earlier or later than the night that shows it best."""

NEGLIGIBLE = 40.0
"""By how much the squared step of such a night is reduced if it is not weighed: e^-20."""

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
    """Log odds of a lasting change against its alternatives; reported above 0. A rank, no
    calibrated probability: of detected simulated drops, nine in ten were right."""
    excursions: int
    """Earlier excursions to about the new level."""
    after: int
    """Nights at the new level when it was detected."""
    reference: int
    """Nights of the level before that it was compared with."""

    @property
    def is_drop(self) -> bool:
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
    """Changes and odds that the last night of a series shows."""

    changes: list[Change]
    """At most one drop and one increase, the highest log odds first."""
    since: list[Change]
    """Changes since the first of them, compared with the level that began with it."""
    past: LevelEstimate
    drop_odds: float
    rise_odds: float
    """Largest log odds of a drop and of an increase; `UNLIKELY` or more."""


def changes_of_last_night(
    series: Series, known: Floats | None = None, earlier: EarlierNoise | None = None
) -> list[Change]:
    """Return the changes of `examine_last_night`."""
    examined = examine_last_night(series, known, earlier)
    return examined.changes if examined else []


def examine_last_night(
    series: Series, known: Floats | None = None, earlier: EarlierNoise | None = None
) -> NightExamined | None:
    """Look for a change among the last nights of a series; None for fewer than `FEWEST` nights.

    Only the last `LOOK_BACK` nights are read.

    Args:
        series: the nights.
        known: prior log odds, for each night, that a change from it on lasts; 0 if None.
        earlier: the noise of the segment before, if this one is young.
    """
    offset = max(0, len(series) - LOOK_BACK)
    window = series.part(offset, len(series))
    if len(window) < FEWEST:
        return None
    past = estimate_level(window)
    found, odds = _changes(window, past, None if known is None else known[offset:], earlier)
    night = len(series) - 1
    changes = [_change(evidence, score, offset, night) for score, evidence in found]
    since = list[Change]()
    if found:
        # The nights since a change are a short level; its noise is that of the level before.
        before = found[0][1].before
        young = window.part(before.first, len(window))
        if len(young) >= FEWEST:
            lent = EarlierNoise(before.noise, before.nights)
            later, _ = _changes(young, estimate_level(young), None, lent)
            step = found[0][1].shift.step
            since = [
                _change(evidence, score, offset + before.first, night)
                for score, evidence in later
                if abs(step + evidence.shift.step) > RETURNED * abs(step)
            ]
    return NightExamined(changes, since, past, odds[-1], odds[1])


def _changes(
    window: Series, past: LevelEstimate, known: Floats | None, earlier: EarlierNoise | None
) -> tuple[list[tuple[float, Evidence]], dict[int, float]]:
    """Return the changes of the last night with their log odds, and the largest odds by sign."""
    scores, prior = steps_of(past.calm, past), np.zeros(len(window)) if known is None else known
    found, odds = list[tuple[float, Evidence]](), dict[int, float]()
    for sign in (-1, 1):
        odds[sign], evidence = _search(window, past, sign * scores, prior, sign, earlier)
        if evidence is not None:
            found.append((odds[sign], evidence))
    found.sort(key=lambda each: -each[0])
    return found, odds


def _search(
    window: Series,
    past: LevelEstimate,
    scores: Floats,
    prior: Floats,
    sign: int,
    earlier: EarlierNoise | None,
) -> tuple[float, Evidence | None]:
    """Return the largest log odds of a change of one sign, and its evidence; `UNLIKELY` at least.

    `scores` are the steps in the direction of `sign`, `prior` the log odds before any evidence.
    """
    tested: dict[int, Evidence] = {}
    odds: dict[int, float] = {}

    def evidence_at(first: int) -> Evidence:
        if first not in tested:
            before = reference_window(window, past, first, earlier)
            tested[first] = evidence_of(before, past.values[first:], sign)
        return tested[first]

    def test(first: int) -> float:
        known = float(prior[first])
        odds[first] = log_odds(evidence_at(first), UNLIKELY - known) + known
        return odds[first]

    def doubt(evidence: Evidence) -> float:
        """Return the log odds against a change; the length of an excursion is ignored."""
        return odds_of_no_new_level(evidence) - float(prior[evidence.before.first])

    for first in _screened(scores, prior):
        if first in tested:
            continue
        found = test(first)
        for beside in (first - 1, first + 1):
            hopeful = found > HOPELESS or prior[min(beside, len(prior) - 1)] > 0
            if hopeful and beside < len(scores) and scores[beside] and beside not in tested:
                test(beside)
    reported = [tested[first] for first in odds if odds[first] > 0]
    if not reported:
        return max([UNLIKELY, *odds.values()]), None
    first = min(reported, key=doubt).before.first
    likely = np.flatnonzero((scores > 0) & (scores**2 > scores[first] ** 2 - NEGLIGIBLE))
    # Compared with a much older level, the step at `first` may have the other sign.
    places = {first, *(int(n) for n in likely if abs(n - first) <= UNSURE)}
    near = sorted(map(evidence_at, sorted(places)), key=doubt)
    return max(odds.values()), near[0].averaged(near[1:])


def steps_of(calm: Floats, past: LevelEstimate) -> Floats:
    """Return the step at each night in standard errors; 0 if it cannot be computed.

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
        baseline=math.exp(min(before.median + before.line.level, 709.0)),
        noise=before.noise,
        score=score,
        excursions=evidence.past.count,
        after=evidence.after,
        reference=before.nights,
    )
