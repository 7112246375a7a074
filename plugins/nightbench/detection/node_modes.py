"""Finds the level of a series on each node, so that it is judged at that of tonight's nodes.

If the level of a series changes with its nodes, again and again, each node has a level. Level
differences at node changes are compared, so that a change of the series itself, which is part of
one of them at most, changes no such level. Without enough of them a change that starts with a run
on other nodes is reported only after `HOLD_NIGHTS` there.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.robust import Floats, median, noise_of_differences

SWITCHES, NIGHTS = 2, 5
"""Fewest changes between two nodes: there and back; nights of a run that are compared at each."""

LEVEL = 20
"""Last nights on a node from which its level is computed."""

CLEAR, SMALLEST = 3.0, 0.005
"""Standard errors, and the relative size, from which levels of nodes differ."""

HOLD_NIGHTS, KNOWN, EARLY, LATE = 14, 3, 1, 3
"""Nights on other nodes before a change that began there is reported. Node changes between the two
from which on it is reported at once, nights by which its date may be early or late."""


@dataclass(frozen=True)
class Modes:
    """A series at the levels of its nodes."""

    points: Sequence[HistoryPoint]
    """All nights as they would have been on tonight's nodes."""
    levels: Mapping[str, float]
    """Level of the series on each of its nodes, the lowest first."""


def modes_of(points: Sequence[HistoryPoint], nodes: Mapping[str, Sequence[str]]) -> Modes | None:
    """Return the node modes of a series; None if its levels do not depend on the nodes.

    Args:
        points: comparable nights, oldest first.
        nodes: run_id -> nodes; those of all other runs under an empty run_id.
    """
    places = _node_names(points, nodes)
    tonight = places[-1]
    counts = {place: places.count(place) for place in dict.fromkeys(places)}
    if len(counts) < 2 or "" in counts:
        return None
    logs: Floats = np.log(np.array([point.value for point in points], dtype=float))
    offsets, noise = {tonight: 0.0}, noise_of_differences(logs)
    for place, differences in _level_differences(logs, places, tonight).items():
        if len(differences) < SWITCHES:
            continue
        found = np.array(differences)
        # The spread of the values, but at least the noise of the nights.
        error = max(float(found.std(ddof=1)), noise) * math.sqrt(math.pi / 2 / len(found))
        off = median(found)
        if abs(off) > max(CLEAR * error, SMALLEST):
            offsets[place] = off
    if len(offsets) < 2:
        return None
    level = median(logs[[k for k, place in enumerate(places) if place == tonight]][-LEVEL:])
    lowest_first = sorted(offsets.items(), key=lambda each: each[1])
    levels = {place: math.exp(level + off) for place, off in lowest_first}
    at_tonights = [
        replace(point, value=point.value * math.exp(-offsets.get(place, 0.0)))
        for point, place in zip(points, places, strict=True)
    ]
    return Modes(at_tonights, levels)


@dataclass(frozen=True)
class NodeChange:
    """Tonight's run of a series on nodes of which too few differences are known."""

    first: int
    """Its first night among the points."""
    place: str
    before: str
    """Where the series was."""

    def holds(self, first: int) -> bool:
        """Return whether a change from a night on may be what the nodes differ by."""
        return -EARLY <= first - self.first <= LATE


def node_change(
    points: Sequence[HistoryPoint], nodes: Mapping[str, Sequence[str]]
) -> NodeChange | None:
    """Return tonight's run on other nodes; None if there is none, it is long, or they are known.

    Args:
        points: comparable nights, oldest first; tonight's the last.
        nodes: as of `modes_of`.
    """
    runs = _node_runs(_node_names(points, nodes))
    if len(runs) < 2 or len(runs[-1][1]) >= HOLD_NIGHTS:
        return None
    (before, _), (place, nights) = runs[-2:]
    moves = sum({one, other} == {before, place} for (one, _), (other, _) in pairwise(runs))
    if moves > KNOWN or "" in (before, place):
        return None
    return NodeChange(nights[0], place, before)


def _node_names(points: Sequence[HistoryPoint], nodes: Mapping[str, Sequence[str]]) -> list[str]:
    usual = nodes.get("", ())
    return ["+".join(nodes.get(point.run_id, usual)) for point in points]


def _node_runs(places: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return each run on the same nodes with its nights."""
    return [
        (place, [night for night, _ in run])
        for place, run in groupby(enumerate(places), key=lambda each: each[1])
    ]


def _level_differences(logs: Floats, places: Sequence[str], tonight: str) -> dict[str, list[float]]:
    """Return by nodes how much higher the level was than tonight's, at each change between them."""
    differences: dict[str, list[float]] = defaultdict(list)
    for (one, before), (other, after) in pairwise(_node_runs(places)):
        if tonight in (one, other):
            difference = median(logs[after[:NIGHTS]]) - median(logs[before[-NIGHTS:]])
            place, sign = (other, 1) if one == tonight else (one, -1)
            differences[place].append(sign * difference)
    return differences
