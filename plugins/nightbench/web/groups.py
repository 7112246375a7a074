"""Alerts of one cause stand together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from nightbench.web.repository import Row


@dataclass(frozen=True)
class Group:
    """Alerts of one cause; most are on their own."""

    members: tuple[Row, ...]
    """Newest first."""

    @property
    def head(self) -> Row:
        """The one that fell the furthest."""
        return min(self.members, key=lambda row: row["change"] or 0.0)

    @property
    def states(self) -> str:
        """How many are in which state."""
        counts = Counter(row["state"] for row in self.members)
        return ", ".join(f"{number} {state}" for state, number in counts.items())


def together(rows: Iterable[Row]) -> list[Group]:
    """Rows of `Repository.find_alerts` by their cause, in the order of the first of each."""
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(row.get("group_key") or row["alert_id"], []).append(row)
    return [Group(tuple(members)) for members in found.values()]
