"""Finds changes of a series: those of its last night, and those of all its nights.

Every night is judged from a window of at most `LOOK_BACK` nights and nothing else. So judging only
tonight, replaying a history, and following a series night by night give the same result.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np

from nightbench.detection.acceptance import WEIGHTS, Weights, log_odds
from nightbench.detection.evidence import Evidence, evidence_at
from nightbench.detection.levels import NOISE_FLOOR, LevelEstimate, estimate_level
from nightbench.detection.robust import Floats, median
from nightbench.detection.series import Series

LOOK_BACK = 180
"""Largest window of nights that a judgement reads: bounds its time and memory."""

TAIL = 30
"""Last nights among which a change is looked for."""

LEAST_NIGHTS = 2
"""Fewest nights at a new level: one slow night is no regression."""

LEAST_REFERENCE = 5
"""Fewest nights of the level before."""

FEWEST = 8
"""Fewest nights of a window that is judged."""

SCREENING_THRESHOLD = 2.2
"""Standard errors of a step from which the evidence of a night is computed."""

SCREENED_NIGHTS = 3
"""Largest number of nights, besides their neighbours, whose evidence is computed for each sign."""

SAME = 7
"""Nights by which the date of a change may move as more nights arrive."""

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
    """95 % credible interval of `change`."""
    baseline: float
    """Level before, in the series' unit."""
    noise: float
    """Relative standard deviation from night to night."""
    slope: float
    """Relative drift of the level before, a night."""
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


def changes_of_last_night(
    series: Series, weights: Weights = WEIGHTS, known: Floats | None = None
) -> list[Change]:
    """Return the changes that the last night of a series shows, the highest score first.

    There is at most one fall and one rise. Only the last `LOOK_BACK` nights are read.

    Args:
        series: the nights.
        weights: of the odds.
        known: prior log odds, for each night, that a change from it on lasts; 0 where None.
    """
    offset = max(0, len(series) - LOOK_BACK)
    window = series.part(offset, len(series))
    if len(window) < FEWEST:
        return []
    past = estimate_level(window)
    scores = _screen(past)
    believed = []
    for sign in (-1, 1):
        best: tuple[float, Evidence] | None = None
        for first in _screened(scores, past, sign):
            evidence = evidence_at(window, past, first, sign)
            odds = log_odds(evidence, weights)
            if known is not None:
                odds += float(known[offset + first])
            if odds > 0 and (best is None or odds > best[0]):
                best = odds, evidence
        if best:
            believed.append(_change(best[1], best[0], offset, len(series) - 1))
    return sorted(believed, key=lambda change: -change.score)


class Follower:
    """Judges one series night by night and keeps its changes.

    The result equals a replay from the start, however the nights are passed to `extend`.

    Args:
        min_change: smallest relative change that is kept.
        weights: of the odds.
    """

    def __init__(self, min_change: float = 0.0, weights: Weights = WEIGHTS) -> None:
        self._min_change = min_change
        self._weights = weights
        self._seen: Series | None = None
        self.changes: list[Change] = []
        """Changes so far, in the order of their detection."""
        self._detected: list[Change] = []
        """The same, each with the size of the night of its detection."""

    def extend(self, series: Series) -> list[Change]:
        """Judge the new nights of `series` and return all its changes so far.

        A series with another past than before is replayed from its start.
        """
        seen = 0
        if self._seen is not None and _continues(self._seen, series):
            seen = len(self._seen)
        else:
            self.changes, self._detected = [], []
        for night in range(seen, len(series)):
            for change in changes_of_last_night(series.part(0, night + 1), self._weights):
                self._keep(change)
        self._seen = series
        return self.changes

    def _keep(self, change: Change) -> None:
        near = [i for i, known in enumerate(self.changes) if _near(change, known)]
        if any(not _is_second_step(change, self.changes[i]) for i in near):
            if len(near) == 1 and _goes_farther(change, known := self.changes[near[0]]):
                # Two steps so close that both are dated to the first.
                self.changes[near[0]] = replace(change, first=known.first, detected=known.detected)
        elif change.may_reach(self._min_change):
            for i in near:
                self.changes[i] = self._detected[i]
            self.changes.append(change)
            self._detected.append(change)


class Followers:
    """Cache of followers by series name; the least recently used one is dropped."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._by_name: OrderedDict[str, Follower] = OrderedDict()

    def extend(self, name: str, series: Series) -> list[Change]:
        """See `Follower.extend`."""
        follower = self._by_name.setdefault(name, Follower())
        self._by_name.move_to_end(name)
        while len(self._by_name) > self._most:
            self._by_name.popitem(last=False)
        return follower.extend(series)


def find_changes(series: Series, min_change: float = 0.0) -> list[Change]:
    """Return all changes of a history, as they are detected night by night.

    The size of a change soon after another is that of its own step.
    """
    found = Follower(min_change).extend(series)
    return [_own_step(series, change, found) for change in found]


def _screen(past: LevelEstimate) -> Floats:
    """Return the step at each night in standard errors; 0 where it cannot be computed."""
    calm, nights = past.calm, len(past.calm)
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


def _screened(scores: Floats, past: LevelEstimate, sign: int) -> list[int]:
    """Return the nights with the largest steps of one sign, and their neighbours."""
    signed = sign * scores
    chosen: list[int] = []
    for first in map(int, np.argsort(-signed, kind="stable")[:12]):
        if signed[first] < SCREENING_THRESHOLD or len(chosen) == SCREENED_NIGHTS:
            break
        if all(abs(first - other) > 2 for other in chosen):
            chosen.append(first)
    around = {first + step for first in chosen for step in (-1, 0, 1)}
    return sorted(first for first in around if first < len(scores) and scores[first] != 0)


def _relative(step: float) -> float:
    """Return a step of the logarithm as a fraction, limited to a factor of a million."""
    return math.expm1(max(-_MILLIONFOLD, min(step, _MILLIONFOLD)))


def _change(evidence: Evidence, score: float, offset: int, night: int) -> Change:
    return Change(
        first=offset + evidence.first,
        detected=night,
        change=_relative(evidence.step),
        low=_relative(evidence.low),
        high=_relative(evidence.high),
        baseline=math.exp(min(evidence.baseline, 709.0)),
        noise=evidence.noise,
        slope=evidence.slope,
        score=score,
        visits=int(evidence.visits.count),
        after=evidence.after,
        reference=evidence.reference,
    )


def _near(change: Change, known: Change) -> bool:
    """Return whether two changes have the same direction and are at most a week apart."""
    return change.falls == known.falls and abs(change.first - known.first) <= SAME


def _is_second_step(change: Change, known: Change) -> bool:
    return change.first >= known.first + LEAST_NIGHTS and _goes_farther(change, known)


def _goes_farther(change: Change, known: Change) -> bool:
    """Return whether a change is larger than another, by more than both are uncertain."""
    return change.high < known.low if change.falls else change.low > known.high


def _own_step(series: Series, change: Change, others: list[Change]) -> Change:
    """Return a change relative to the level since the one before it, not to the level before both.

    Where the level between is too young to be the present one, both are detected against the level
    before.
    """
    start = change.first - change.reference
    between = [other.first for other in others if start < other.first < change.first]
    if not between:
        return change
    level = math.exp(median(series.level[max(between) : change.first]))
    factor = change.baseline / level
    return replace(
        change,
        change=(1 + change.change) * factor - 1,
        low=(1 + change.low) * factor - 1,
        high=(1 + change.high) * factor - 1,
        baseline=level,
    )


def _continues(seen: Series, series: Series) -> bool:
    n = len(seen)
    return len(series) >= n and all(
        np.array_equal(getattr(seen, name), getattr(series, name)[:n], equal_nan=True)
        for name in ("day", "level", "within", "count")
    )
