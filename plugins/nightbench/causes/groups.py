"""Groups changes by cause: the same suspect on neighbouring nights of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from nightbench.core.model.alerts import CauseKind

APART = 1
"""Nights by which the changes of one cause may differ: series do not all notice at once."""


@dataclass(frozen=True)
class Member:
    """A change with its cause; `group` is empty until it is grouped."""

    alert_id: int
    cluster: str
    kind: CauseKind
    suspect: str
    night: date
    """The first bad one."""
    group: str = ""


def grouped(members: Iterable[Member], known: Iterable[Member] = ()) -> dict[int, str]:
    """Return the group of each change by alert_id; empty where it has no suspect.

    Args:
        members: changes without a group, in any order.
        known: grouped changes of earlier runs, whose groups are continued.
    """
    anchors: dict[tuple[str, CauseKind, str], dict[date, str]] = {}
    for one in sorted(known, key=lambda m: (m.night, m.group)):
        if one.group:
            of_suspect = anchors.setdefault((one.cluster, one.kind, one.suspect), {})
            of_suspect.setdefault(one.night, one.group)
    found: dict[int, str] = {}
    for one in sorted(members, key=lambda m: (m.night, m.alert_id)):
        if not one.suspect:
            found[one.alert_id] = ""
            continue
        nights = anchors.setdefault((one.cluster, one.kind, one.suspect), {})
        near = [night for night in nights if abs((night - one.night).days) <= APART]
        if near:
            key = nights[min(near, key=lambda night: (abs((night - one.night).days), night))]
        else:
            key = f"{one.cluster}/{one.kind}/{one.suspect}/{one.night.isoformat()}"
            nights[one.night] = key
        found[one.alert_id] = key
    return found
