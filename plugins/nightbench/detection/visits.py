"""Counts the stays of a series at another level that ended: modes, slow weeks, neighbours."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from nightbench.detection.robust import Floats

TAILS = 5
"""Degrees of freedom of the noise between nights."""

BOUNDARY = 0.7
"""Depth from which a night is rather at the other level: a stay half way down was at another."""

_LEAVE, _AT_HOME, _RETURN, _AWAY = map(math.log, (0.05, 0.95, 0.15, 0.85))
"""Logarithms of the odds by which nights are assigned to a visit or to the level."""
_BEGINS_AWAY = math.log(0.2)


@dataclass(frozen=True)
class Visits:
    """Earlier stays at another level that ended."""

    count: float
    nights: float
    """Nights that they took together."""
    elsewhere: float
    """Nights that were not there."""

    def towards(self, other: Visits, part: float) -> Visits:
        """Return counts between these and those of the other, `part` of the way, never fewer."""
        return Visits(
            self.count + part * max(0.0, other.count - self.count),
            self.nights + part * max(0.0, other.nights - self.nights),
            self.elsewhere - part * max(0.0, self.elsewhere - other.elsewhere),
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
    near = np.clip(depth + 0.5 - BOUNDARY, -0.5, 1.0)
    scaled = distinct * distinct / TAILS
    gains = (TAILS + 1) / 2 * np.log((1 + scaled * near**2) / (1 + scaled * (near - 1) ** 2))
    home, away = 0.0, _BEGINS_AWAY
    came_from: list[tuple[bool, bool]] = []
    for gain in map(float, gains):
        returning, at_home = away + _RETURN, home + _AT_HOME
        leaving, staying = home + _LEAVE, away + _AWAY
        came_from.append((returning > at_home, leaving <= staying))
        # max() would take a third of the time.
        home = returning if returning > at_home else at_home
        away = (leaving if leaving > staying else staying) + gain
    is_away, path = away > home, []
    for from_away in reversed(came_from):
        path.append(is_away)
        is_away = from_away[is_away]
    runs = [(there, len(list(run))) for there, run in itertools.groupby(reversed(path))]
    # The first run has no beginning, the last one no end.
    visits = [nights for there, nights in runs[1:-1] if there]
    elsewhere = sum(nights for there, nights in runs if not there)
    return Visits(len(visits), sum(visits), elsewhere)
