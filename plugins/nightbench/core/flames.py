"""Flame graphs: stacks of names with the seconds spent in each, as rectangles."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Flame:
    """A rectangle of a flame graph; fractions of the graph's width."""

    name: str
    left: float
    width: float
    depth: int
    seconds: float
    """In it and all within it, for each step."""
    grown_s: float
    """More than in the other build."""


LEAST = 0.002
"""Width of the graph's below which a rectangle is left out."""


def flames(of: Mapping[str, float], other: Mapping[str, float]) -> list[Flame]:
    """Return the flame graph of some stacks."""
    totals, others = _totals(of), _totals(other)
    whole = sum(seconds for path, seconds in totals.items() if len(path) == 1)
    if not whole:
        return []
    found: list[Flame] = []

    def place(children: Iterable[tuple[str, ...]], left: float) -> None:
        for path in sorted(children):
            width = totals[path] / whole
            if width >= LEAST:
                grown_s = totals[path] - others.get(path, 0.0)
                found.append(Flame(path[-1], left, width, len(path) - 1, totals[path], grown_s))
                place(below.get(path, ()), left)
            left += width

    below: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for path in totals:
        below.setdefault(path[:-1], []).append(path)
    place(below[()], 0.0)
    return found


def _totals(stacks: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    totals: dict[tuple[str, ...], float] = {}
    for stack, seconds in stacks.items():
        path = tuple(stack.split(";"))
        for end in range(1, len(path) + 1):
            totals[path[:end]] = totals.get(path[:end], 0.0) + seconds
    return totals
