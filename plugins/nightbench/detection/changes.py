"""Changes of a series: what its last night newly says, and the replay of all its nights.

Every night is judged from a window of its own (`LOOK_BACK` nights at most), so what is said of it
depends on these nights alone: judging only tonight, replaying a history, and following one night
by night give the same answer.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from nightbench.detection.acceptance import WEIGHTS, Weights, log_odds
from nightbench.detection.evidence import Evidence, weigh
from nightbench.detection.levels import NOISE_FLOOR, LevelEstimate, estimate_level
from nightbench.detection.robust import Floats
from nightbench.detection.series import Series

LOOK_BACK = 180
"""Nights that a judgement rests on, at most: bounds its time and memory."""

TAIL = 30
"""Nights within which a change is news."""

LEAST_NIGHTS = 2
"""Nights at a new level before it is believed: one slow night is no regression."""

LEAST_REFERENCE = 5
"""Nights of the level before."""

FEWEST = 8
"""Nights that a window must have before anything is said of it."""

SCREENING_THRESHOLD = 2.2
"""Screening: noise scales, over the standard error, from which a night is looked at closely."""

SCREENED_NIGHTS = 3
"""Nights that are looked at closely, at most, with their neighbours, for falls and for rises."""

SAME = 7
"""Changes of one direction no further apart are one, dated differently as more nights came."""

_MILLIONFOLD = math.log(1e6)


@dataclass(frozen=True)
class Change:
    """A change of level that is believed; nights count from 0 in the series it was found in."""

    first: int
    """First night at the new level."""
    told: int
    """Night after which it was believed."""
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
    """Believed above 0: by how much a lasting change outweighs all else, as logarithm of odds. A
    rank, no calibrated probability: of simulated falls that were told, nine in ten were right."""
    visits: int
    """Earlier stays at about the new level that ended."""
    after: int
    """Nights at the new level when it was believed."""
    reference: int
    """Nights of the level before that it was held against."""

    @property
    def falls(self) -> bool:
        """True for a change to lower values."""
        return self.change < 0


def changes_of_last_night(
    series: Series, weights: Weights = WEIGHTS, known: Floats | None = None
) -> list[Change]:
    """Changes within the last nights of a series that are believed now, the surest first.

    Looks at the last `LOOK_BACK` nights only. Falls and rises are each told once at most.

    Args:
        series: the nights.
        weights: of the odds.
        known: what is known of each night beside its value, as logarithm of the odds that a
            change which begins there lasts; nothing where None.
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
            evidence = weigh(window, past, first, sign)
            odds = log_odds(evidence, weights)
            if known is not None:
                odds += float(known[offset + first])
            if odds > 0 and (best is None or odds > best[0]):
                best = odds, evidence
        if best:
            believed.append(_change(best[1], best[0], offset, len(series) - 1))
    return sorted(believed, key=lambda change: -change.score)


class Follower:
    """Follows one series night by night and remembers what was told of it.

    Equal to a replay from the start, whatever the nights were handed over in: see `extend`.
    """

    def __init__(self, weights: Weights = WEIGHTS) -> None:
        self._weights = weights
        self._seen: Series | None = None
        self.changes: list[Change] = []
        """Told so far, in the order in which they were believed."""

    def extend(self, series: Series) -> list[Change]:
        """Judge the nights of `series` that are new; its changes told so far.

        A series that does not continue what was seen (another past) is replayed from its start.
        """
        seen = 0
        if self._seen is not None and _continues(self._seen, series):
            seen = len(self._seen)
        else:
            self.changes = []
        for night in range(seen, len(series)):
            for change in changes_of_last_night(series.part(0, night + 1), self._weights):
                if not any(_same(change, known) for known in self.changes):
                    self.changes.append(change)
        self._seen = series
        return self.changes


class Followers:
    """Followers of many series by name; the least recently used are forgotten, none is wrong."""

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


def find_changes(series: Series) -> list[Change]:
    """All changes of a history, as they would have been told night by night."""
    return Follower().extend(series)


def _screen(past: LevelEstimate) -> Floats:
    """Fall or rise at each night in standard errors; 0 where a night cannot be looked at."""
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
    """The best nights of a screening and their neighbours."""
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
    """A step of the logarithm as a fraction, above -1 and finite: a millionfold at most."""
    return math.expm1(max(-_MILLIONFOLD, min(step, _MILLIONFOLD)))


def _change(evidence: Evidence, score: float, offset: int, night: int) -> Change:
    return Change(
        first=offset + evidence.first,
        told=night,
        change=_relative(evidence.step),
        low=_relative(evidence.low),
        high=_relative(evidence.high),
        baseline=math.exp(min(evidence.baseline, 709.0)),
        noise=evidence.noise,
        slope=evidence.slope,
        score=score,
        visits=evidence.visits,
        after=evidence.after,
        reference=evidence.reference,
    )


def _same(change: Change, known: Change) -> bool:
    """A fall soon after a rise is news, and a recovery within a week is one."""
    return change.falls == known.falls and abs(change.first - known.first) <= SAME


def _continues(seen: Series, series: Series) -> bool:
    n = len(seen)
    return len(series) >= n and all(
        np.array_equal(getattr(seen, name), getattr(series, name)[:n], equal_nan=True)
        for name in ("day", "level", "within", "count")
    )
