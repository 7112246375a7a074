"""Prior odds of a change that begins with a new framework version or with new hardware."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.robust import Floats

SHARE = 0.5
"""Assumed share of lasting changes that come with a new version or with new hardware."""


def release_odds(points: Sequence[HistoryPoint]) -> Floats:
    """Return what each night's version adds to the log odds that a change from it on lasts.

    A temporary slowdown begins on any night, a lasting change often with a release: on a night
    with a new version it is likelier by `SHARE` over the share of nights that have one. Nothing is
    added where versions change every night or are unknown; nothing is ever subtracted.

    Args:
        points: nights of one series, oldest first.

    Returns:
        Natural logarithms, zero or above, one for each night.
    """
    return new_state_odds([point.framework_version for point in points])


def fingerprint_odds(points: Sequence[HistoryPoint]) -> Floats:
    """Return the same for each night's fingerprint: a new driver, or nodes of another kind."""
    return new_state_odds([point.fingerprint_id for point in points])


def new_state_odds(states: Sequence[str | None]) -> Floats:
    """Return the same for any state of the nights; None is an unknown state."""
    known = [bool(one and other) for one, other in pairwise(states)]
    moved = [is_known and a != b for is_known, (a, b) in zip(known, pairwise(states), strict=True)]
    rate = (sum(moved) + 1) / (sum(known) + 1)
    new = np.array([False, *moved][: len(states)])
    return np.where(new, max(0.0, math.log(SHARE / rate)), 0.0)
