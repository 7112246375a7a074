"""What a new version of the framework says of a change that begins with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nightbench.detection.robust import Floats
from nightbench.model import HistoryPoint

SHARE = 0.5
"""Of all changes that last, how many are taken to come with a new version."""


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
    pairs = [(a.framework_version, b.framework_version) for a, b in pairwise(points)]
    known = sum(bool(a and b) for a, b in pairs)
    moved = np.array([False, *(bool(a and b) and a != b for a, b in pairs)][: len(points)])
    rate = (moved.sum() + 1) / (known + 1)
    return np.where(moved, max(0.0, math.log(SHARE / rate)), 0.0)
