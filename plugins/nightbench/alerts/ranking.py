"""How severe live alerts are and which come first: stored when a night is judged or confirmed.

The message, the pages and the command read what is stored, and group alerts by `group_key`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nightbench.core.model import gain_of, info_of
from nightbench.core.sentences import percent
from nightbench.warehouse import Warehouse
from nightbench.warehouse.repository import Row

HIGH, MEDIUM, LOW = "high", "medium", "low"
LEVELS = (HIGH, MEDIUM, LOW)
LARGE = 0.10
SMALL = 0.03
"""Smallest relative losses of a high and of a medium severity."""
MANY = 5
"""Series of one cause that make its severity high."""


def store_ranks(warehouse: Warehouse, cluster: str) -> None:
    """Compute and store the ranks of a cluster's live alerts."""
    rows = warehouse.alerts.read("live_alerts", cluster=cluster)
    warehouse.alerts.store_ranks([vars(rank) for rank in ranks_of(rows)])


@dataclass(frozen=True)
class AlertRank:
    """The place of an alert among the live ones of its cluster."""

    alert_id: int
    severity: str
    because: str
    rank: float
    """Rank of its group: the lowest comes first."""
    place: int
    """In its group, from 1."""


def ranks_of(rows: Iterable[Row]) -> list[AlertRank]:
    """Return the rank of each alert of statement `live_alerts`: the worst group first.

    A group is ranked by its severity, then by the sum of what its series lose for certain. Within
    a group, alerts without a value come first, then the largest change for the worse.
    """
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group_key"] or row["alert_id"], []).append(row)
    found = []
    for group in groups.values():
        severity, because = severity_of(group)
        loss = sum(map(least_loss, group))
        rank = LEVELS.index(severity) + 1 / (1 + loss)
        members = sorted(group, key=lambda row: (_gain(row), row["alert_id"]))
        found += [
            AlertRank(row["alert_id"], severity, because, rank, place)
            for place, row in enumerate(members, 1)
        ]
    return found


def severity_of(group: Sequence[Row]) -> tuple[str, str]:
    """Return the severity of a group, and in a clause why.

    It depends on the certain loss, the number of series, and confirmations.
    """
    least = max(map(least_loss, group))
    outcomes = {row["confirmation"] for row in group}
    if any(row["change"] is None and row["metric"] != "training" for row in group):
        return HIGH, "no longer yields a result"
    if outcomes == {"not_confirmed"}:
        return LOW, "was not confirmed when measured again"
    if any(row["metric"] == "training" for row in group):
        return HIGH, "trains differently from before"
    if len(group) >= MANY:
        return HIGH, f"{len(group)} series drop together"
    if least >= LARGE:
        return HIGH, f"loses {percent(least)} at least"
    if "confirmed" in outcomes:
        return MEDIUM, "was confirmed when measured again"
    if least >= SMALL:
        return MEDIUM, f"loses {percent(least)} at least"
    if len(group) > 1:
        return MEDIUM, f"{len(group)} series drop together"
    return LOW, f"may lose less than {percent(SMALL, 0)}"


def least_loss(row: Row) -> float:
    """Return the relative loss that is certain: the near end of its interval.

    Without an interval half of the change counts; without a value everything is lost.
    """
    if row["change"] is None:
        return 1.0
    lower = info_of(row["metric"]).lower_is_better
    near = row["change_low"] if lower else row["change_high"]
    return max(0.0, -(_gain(row) / 2 if near is None else gain_of(near, row["metric"]) or 0.0))


def _gain(row: Row) -> float:
    """Return the gain; if there is no value, less than any gain."""
    return -2.0 if row["change"] is None else gain_of(row["change"], row["metric"]) or 0.0
