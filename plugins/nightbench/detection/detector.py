"""The interface of a detector, the nights comparable with tonight, and what new versions add."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Protocol

import numpy as np

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind, differ
from nightbench.detection.control_shift import ControlShift
from nightbench.detection.drift import Drift
from nightbench.detection.robust import Floats

APART = 30
"""Largest number of successive incomparable nights between nights that are compared."""

SHARE = 0.5
"""Assumed share of lasting changes that come with a new version or with new hardware."""


@dataclass(frozen=True)
class Judgement:
    """Result of judging one night, with its evidence."""

    kind: VerdictKind
    """ok, regressed, improved or insufficient_data."""
    sentence: str
    baseline: float | None = None
    """The level that tonight is compared with, in the series' unit."""
    change: float | None = None
    """value / baseline - 1: tonight's own, which may be outside of the level's interval."""
    level_change: float | None = None
    """Estimate of the level's relative change; tonight's own for ok and watched."""
    history: int = 0
    """Number of comparable nights before tonight."""
    since: datetime | None = None
    """First night at the new level, for regressed and improved."""
    last_good: HistoryPoint | None = None
    """Last night before `since`."""
    first_bad: HistoryPoint | None = None
    """The night of `since`."""
    low: float | None = None
    high: float | None = None
    """90 % interval of the level's relative change."""
    smallest_slowdown: float | None = None
    """Smallest relative drop that would be detected within a week in nine of ten cases."""
    control: ControlShift | None = None
    """Shift of the nodes' control measurements at the change; None if unknown."""
    drift: Drift | None = None
    """Drift of the present level of an ok series; no night of it is a regression."""


class Detector(Protocol):
    """Judges one night of one series; higher values are better."""

    def judge(
        self, history: Sequence[HistoryPoint], tonight: HistoryPoint, policy: RegressionPolicy
    ) -> Judgement:
        """Judge `tonight` by the nights before it.

        Args:
            history: good nights before tonight, oldest first, all in tonight's unit.
            tonight: the night to judge; its value is positive and finite.
            policy: of the suite.
        """
        ...


def segments(points: Sequence[HistoryPoint]) -> list[list[int]]:
    """Return groups of comparable nights, as indices: the same work on the same kind of nodes.

    Another `definition_digest` means other work, another `fingerprint_id` other hardware or
    software of the node. A case that alternates between two kinds of nodes has a segment on each;
    more than `APART` successive incomparable nights end a segment. A night without one of the two
    (imported results) has that of the night before it, or the first one that is known.

    Returns:
        Segments in the order of their first nights; one without a night if there are no points.
    """
    found: list[list[int]] = []
    newest: dict[tuple[str | None, str | None], list[int]] = {}
    work = next(filter(None, (point.definition_digest for point in points)), None)
    nodes = next(filter(None, (point.fingerprint_id for point in points)), None)
    for i, point in enumerate(points):
        work, nodes = point.definition_digest or work, point.fingerprint_id or nodes
        nights = newest.get((work, nodes))
        if nights is None or i - nights[-1] - 1 > APART:
            nights = newest[work, nodes] = []
            found.append(nights)
        nights.append(i)
    return found or [[]]


def segment(history: Sequence[HistoryPoint], tonight: HistoryPoint) -> list[HistoryPoint]:
    """Return the nights of tonight's segment before tonight, see `segments`."""
    points = [*history, tonight]
    return [points[i] for i in max(segments(points), key=lambda nights: nights[-1])[:-1]]


def segment_before(
    history: Sequence[HistoryPoint], nights: Sequence[HistoryPoint], tonight: HistoryPoint
) -> list[HistoryPoint]:
    """Return the segment before tonight's, if only hardware or software of the nodes differ.

    `nights` is what `segment` made of the history. No night if the work changed too, or if
    nothing did.
    """
    older = history[: segment_start(history, nights)]
    if not older or differ(older[-1].definition_digest, tonight.definition_digest):
        return []
    return [*segment(older[:-1], older[-1]), older[-1]]


def segment_start(history: Sequence[HistoryPoint], nights: Sequence[HistoryPoint]) -> int:
    """Return the index of a segment's first night in the history; tonight's if it is empty."""
    if not nights:
        return len(history)
    return next(i for i, point in enumerate(history) if point is nights[0])


def release_odds(points: Sequence[HistoryPoint]) -> Floats:
    """Return what each night's version adds to the log odds that a change from it on lasts.

    A temporary slowdown begins on any night, a lasting change often with a release. So the change
    is likelier to last on a night with a new version, by `SHARE` over the share of such nights.
    Nothing is added if versions change every night or are unknown; nothing is ever subtracted.

    Args:
        points: nights of one series, oldest first.

    Returns:
        Natural logarithms, zero or above, one for each night.
    """
    return new_state_odds([point.framework_version for point in points])


def new_state_odds(states: Sequence[str | None]) -> Floats:
    """Return the same for any state of the nights; None is an unknown state."""
    moved = [differ(one, other) for one, other in pairwise(states)]
    known = sum(bool(one and other) for one, other in pairwise(states))
    rate = (sum(moved) + 1) / (known + 1)
    new = np.array([False, *moved][: len(states)])
    return np.where(new, max(0.0, math.log(SHARE / rate)), 0.0)
