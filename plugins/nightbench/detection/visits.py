"""Counts the stays of a series at another level that ended: modes, slow weeks, neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nightbench.detection.robust import Floats, list_of

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
    return earlier_visits_of_each(depth[None, :], np.array([distinct]))[0]


def earlier_visits_of_each(depths: Floats, distinct: Floats) -> list[Visits]:
    """Return the same for several other levels at once: a row of `depths` each."""
    near = np.minimum(np.maximum(depths + (0.5 - BOUNDARY), -0.5), 1.0)
    scaled = (distinct * distinct / TAILS)[:, None]
    gains = (TAILS + 1) / 2 * np.log((1 + scaled * near**2) / (1 + scaled * (near - 1) ** 2))
    # What the next night starts from: most nights decide it, whatever was before them.
    there = gains + _COME + _STAY >= _GO
    is_open = ~there & (gains + _GO + _STAY > _COME)
    starts = np.empty((gains.shape[0], gains.shape[1] + 1))
    starts[:, 0], starts[:, 1:] = _BEGINS_AWAY + _STAY, np.where(there, _GO, _COME)
    for row, gain, open_nights in zip(starts, gains, is_open, strict=True):
        nights, odds = np.flatnonzero(open_nights), list_of(row)
        for night, gained in zip(list_of(nights), list_of(gain[nights]), strict=True):
            found = odds[night] + gained + _STAY
            # min() and max() would take twice the time.
            if found < _COME:
                found = _COME
            elif found > _GO:
                found = _GO
            odds[night + 1] = found
        row[:] = odds
    is_away = _likeliest_path(starts[:, :-1] + gains)
    changes, elsewhere = is_away[:, 1:] != is_away[:, :-1], list_of((~is_away).sum(axis=1))
    counted = []
    for away, changed, others in zip(is_away, changes, elsewhere, strict=True):
        edges = np.flatnonzero(changed) + 1
        # The first run has no beginning, the last one no end.
        inner = list_of((edges[1:] - edges[:-1])[away[edges[:-1]]])
        counted.append(Visits(len(inner), sum(inner), others, max(inner, default=0)))
    return counted


def _likeliest_path(odds: Floats) -> NDArray[np.bool_]:
    """Return whether nights were there, from the log odds of each by those of its row up to it.

    Odds beyond the bounds decide; between them a night was where the next one was.
    """
    there = odds > _GO - _STAY
    decided = there | (odds < _COME - _STAY)
    there[:, -1], decided[:, -1] = odds[:, -1] > 0, True
    night = np.where(decided, np.arange(odds.shape[1]), odds.shape[1])
    decides = np.minimum.accumulate(night[:, ::-1], axis=1)[:, ::-1]
    path: NDArray[np.bool_] = np.take_along_axis(there, decides, axis=1)
    return path
