"""Counts how often a series was at another level before and came back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nightbench.detection.robust import Floats, list_of

TAILS = 5
"""Degrees of freedom of the night-to-night noise."""

BOUNDARY = 0.7
"""Depth from which a night counts as being at the other level."""

_STAY, _COME, _GO = math.log(0.85 / 0.95), math.log(0.05 / 0.95), math.log(0.85 / 0.15)
"""One night in twenty starts an excursion, three in twenty end one: the change of the log odds from
night to night, and their bounds."""
_STARTS_AWAY = math.log(0.2)


@dataclass(frozen=True)
class Excursions:
    """Past excursions: a series ran at another level for some nights and came back.

    A single night is a slow night and no excursion: it says nothing about the length of a later
    excursion.
    """

    count: int
    """Excursions of two nights or more."""
    nights: int
    """Nights of these excursions."""
    away: int
    """All nights at the other level, single ones included."""
    elsewhere: int
    """Nights that were not at the other level."""
    longest: int = 0
    """Nights of the longest excursion."""


def past_excursions(depth: Floats, distinct: float) -> Excursions:
    """Return the earlier excursions to another level.

    The likeliest path of a chain with two states (Viterbi) assigns the nights to the two levels, so
    that noise between levels that are hard to distinguish is no excursion. A past that starts at
    the other level does not count: the series may have come from that level.

    Args:
        depth: of each night, 0 at the present level and 1 at the other one.
        distinct: distance of the levels in standard deviations of a night.
    """
    near = np.minimum(np.maximum(depth + (0.5 - BOUNDARY), -0.5), 1.0)
    scaled = distinct * distinct / TAILS
    gains = (TAILS + 1) / 2 * np.log((1 + scaled * near**2) / (1 + scaled * (near - 1) ** 2))
    # Log odds with which the next night starts. Most nights decide them alone.
    is_away = gains + _COME + _STAY >= _GO
    is_open = ~is_away & (gains + _GO + _STAY > _COME)
    starts = np.empty(len(gains) + 1)
    starts[0], starts[1:] = _STARTS_AWAY + _STAY, np.where(is_away, _GO, _COME)
    odds = list_of(starts)
    for night in list_of(np.flatnonzero(is_open)):
        odds[night + 1] = min(max(odds[night] + float(gains[night]) + _STAY, _COME), _GO)
    path = _likeliest_path(np.array(odds[:-1]) + gains)
    edges = np.flatnonzero(path[1:] != path[:-1]) + 1
    # The first run has no beginning, the last one no end.
    lengths = (edges[1:] - edges[:-1])[path[edges[:-1]]]
    long = lengths[lengths > 1]
    return Excursions(
        len(long),
        int(long.sum()),
        int(lengths.sum()),
        int(len(path) - np.count_nonzero(path)),
        int(long.max(initial=0)),
    )


def _likeliest_path(odds: Floats) -> NDArray[np.bool_]:
    """Return whether each night was at the other level.

    `odds` are log odds of each night given all nights up to it. Odds beyond the bounds decide;
    between them a night was where the next one was.
    """
    is_away = odds > _GO - _STAY
    decided = is_away | (odds < _COME - _STAY)
    is_away[-1], decided[-1] = odds[-1] > 0, True
    night = np.where(decided, np.arange(len(odds)), len(odds))
    decides = np.minimum.accumulate(night[::-1])[::-1]
    path: NDArray[np.bool_] = is_away[decides]
    return path
