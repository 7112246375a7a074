"""Counts the stays of a series at another level that ended: modes, slow weeks, neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nightbench.detection.robust import Floats

TAILS = 5
"""Degrees of freedom of the noise between nights."""

BOUNDARY = 0.7
"""Depth from which a night is rather at the other level: a stay half way down was at another."""

_STAY, _COME, _GO = math.log(0.85 / 0.95), math.log(0.05 / 0.95), math.log(0.85 / 0.15)
"""A night in twenty begins a visit, three in twenty end one: what that makes of the log odds that
the night before was there, and their bounds."""
_BEGINS_AWAY = math.log(0.2)


@dataclass(frozen=True)
class Visits:
    """Earlier stays at another level that ended."""

    count: float
    nights: float
    """Nights that they took together."""
    elsewhere: float
    """Nights that were not there."""
    longest: int
    """Nights of the longest of them."""

    def plus(self, other: Visits) -> Visits:
        """Return the counts of both."""
        return Visits(
            self.count + other.count,
            self.nights + other.nights,
            self.elsewhere + other.elsewhere,
            max(self.longest, other.longest),
        )

    def towards(self, other: Visits, part: float) -> Visits:
        """Return counts between these and those of the other, `part` of the way, never fewer."""
        return Visits(
            self.count + part * max(0.0, other.count - self.count),
            self.nights + part * max(0.0, other.nights - self.nights),
            self.elsewhere - part * max(0.0, self.elsewhere - other.elsewhere),
            self.longest,
        )


def earlier_visits(depth: Floats, distinct: float) -> Visits:
    """Return the earlier visits to another level.

    The nights are assigned to the two levels by the likeliest path of a chain with two states
    (Viterbi), so that noise between levels that are hard to tell apart is no coming and going. A
    past that begins there does not count as a visit: the series may have come from that level.

    Args:
        depth: of each night, 0 at the present level and 1 at the other one.
        distinct: distance of the levels in standard deviations of a night.
    """
    near = np.minimum(np.maximum(depth + (0.5 - BOUNDARY), -0.5), 1.0)
    scaled = distinct * distinct / TAILS
    gains = (TAILS + 1) / 2 * np.log((1 + scaled * near**2) / (1 + scaled * (near - 1) ** 2))
    # What the next night starts from: most nights decide it, whatever was before them.
    there = gains + _COME + _STAY >= _GO
    open_nights = np.flatnonzero(~there & (gains + _GO + _STAY > _COME))
    starts = [_BEGINS_AWAY + _STAY, *map(float, np.where(there, _GO, _COME))]
    for night, gain in zip(map(int, open_nights), map(float, gains[open_nights]), strict=True):
        odds = starts[night] + gain + _STAY
        # min() and max() would take twice the time.
        if odds < _COME:
            odds = _COME
        elif odds > _GO:
            odds = _GO
        starts[night + 1] = odds
    is_away = _likeliest_path(np.array(starts[:-1]) + gains)
    edges = np.flatnonzero(is_away[1:] != is_away[:-1]) + 1
    # The first run has no beginning, the last one no end.
    inner = (edges[1:] - edges[:-1])[is_away[edges[:-1]]]
    longest = int(inner.max(initial=0))
    return Visits(len(inner), int(inner.sum()), int((~is_away).sum()), longest)


def _likeliest_path(odds: Floats) -> NDArray[np.bool_]:
    """Return whether each night was there, from the log odds of each by the nights up to it.

    Odds beyond the bounds decide; between them a night was where the next one was.
    """
    there = odds > _GO - _STAY
    decided = there | (odds < _COME - _STAY)
    there[-1], decided[-1] = odds[-1] > 0, True
    night = np.where(decided, np.arange(len(odds)), len(odds))
    path: NDArray[np.bool_] = there[np.minimum.accumulate(night[::-1])[::-1]]
    return path
