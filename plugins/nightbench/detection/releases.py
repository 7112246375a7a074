"""What a new version of the framework, or new hardware, says of a change that begins with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.robust import Floats

SHARE = 0.5
"""Of all changes that last, how many are taken to come with a new version, or with new hardware."""


def release_odds(points: Sequence[HistoryPoint]) -> Floats:
    """What each night's version adds to the odds that a change which begins with it lasts.

    A slow visit begins on any night, a change that lasts often with a release: on a night with a
    new version it is likelier by `SHARE` over the share of nights that have one. Where versions
    change every night, or are not known, nothing is added, and nothing is ever taken away.

    Args:
        points: nights of one series, oldest first.

    Returns:
        Natural logarithms, zero or above, one for each night.
    """
    return new_state_odds([point.framework_version for point in points])


def fingerprint_odds(points: Sequence[HistoryPoint]) -> Floats:
    """The same for each night's fingerprint: a new driver, say, or nodes of another kind."""
    return new_state_odds([point.fingerprint_id for point in points])


def new_state_odds(states: Sequence[str | None]) -> Floats:
    """The same for anything that nights have; None where a night does not know it."""
    known = [bool(one and other) for one, other in pairwise(states)]
    moved = [is_known and a != b for is_known, (a, b) in zip(known, pairwise(states), strict=True)]
    rate = (sum(moved) + 1) / (sum(known) + 1)
    new = np.array([False, *moved][: len(states)])
    return np.where(new, max(0.0, math.log(SHARE / rate)), 0.0)
