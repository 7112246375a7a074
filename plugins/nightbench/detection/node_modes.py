"""Finds which node makes a series jump between levels, so that it is judged at tonight's.

Where a series changes nodes and its level changes with them, again and again, the nodes are its
modes. Jumps between neighbouring stays are compared, so that a change of the level itself, which
falls into one of them at most, moves no mode. While there are too few, what begins with a stay on
other nodes is no change before that has lasted.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.robust import Floats, median, noise_of_differences

SWITCHES, STAY = 2, 5
"""Fewest changes between two nodes: there and back; nights of a stay that are compared at each."""

LEVEL = 20
"""Last nights on a node whose level is said."""

CLEAR, SMALLEST = 3.0, 0.005
"""Standard errors, and the relative size, from which nodes are modes."""

HOLD_NIGHTS, KNOWN, EARLY, LATE = 14, 3, 1, 3
"""Nights that a series stays on other nodes before what began there is a change of its own; moves
between the two from which on it is one at once; nights by which its date may be early or late."""


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
    places = _places(points, nodes)
    tonight = places[-1]
    counts = {place: places.count(place) for place in dict.fromkeys(places)}
    if len(counts) < 2 or "" in counts:
        return None
    logs: Floats = np.log(np.array([point.value for point in points], dtype=float))
    offsets, noise = {tonight: 0.0}, noise_of_differences(logs)
    for place, jumps in _jumps(logs, places, tonight).items():
        if len(jumps) < SWITCHES:
            continue
        found = np.array(jumps)
        # What the jumps differ by, and what their nights' noise makes of them.
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
    """Tonight's stay of a series on nodes of which too few jumps are known."""

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
    """Return tonight's stay; None where there is none, it has lasted, or the nodes are known.

    Args:
        points: comparable nights, oldest first; tonight's the last.
        nodes: as of `modes_of`.
    """
    stays = _stays(_places(points, nodes))
    if len(stays) < 2 or len(stays[-1][1]) >= HOLD_NIGHTS:
        return None
    (before, _), (place, nights) = stays[-2:]
    moves = sum({one, other} == {before, place} for (one, _), (other, _) in pairwise(stays))
    if moves > KNOWN or "" in (before, place):
        return None
    return NodeChange(nights[0], place, before)


def _places(points: Sequence[HistoryPoint], nodes: Mapping[str, Sequence[str]]) -> list[str]:
    usual = nodes.get("", ())
    return ["+".join(nodes.get(point.run_id, usual)) for point in points]


def _stays(places: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return each stay at a place with its nights."""
    return [
        (place, [night for night, _ in stay])
        for place, stay in groupby(enumerate(places), key=lambda each: each[1])
    ]


def _jumps(logs: Floats, places: Sequence[str], tonight: str) -> dict[str, list[float]]:
    """Return for each place how much higher it lay at each change between it and tonight's."""
    jumps: dict[str, list[float]] = defaultdict(list)
    for (one, before), (other, after) in pairwise(_stays(places)):
        if tonight in (one, other):
            jump = median(logs[after[:STAY]]) - median(logs[before[-STAY:]])
            place, sign = (other, 1) if one == tonight else (one, -1)
            jumps[place].append(sign * jump)
    return jumps
