"""Groups of alerts, the worst first: what hangs together, and how severe it is. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from nightbench.core.model import gain_of, info_of
from nightbench.core.sentences import percent
from nightbench.warehouse.repository import Row

Together = Literal["cause", "onset", "nothing"]
"""What alerts of one row share: their cause, the first slow run, or nothing."""

HIGH, MEDIUM, LOW = "high", "medium", "low"
LARGE = 0.10
SMALL = 0.03
"""Relative falls, at their least."""
MANY = 5
"""Series that fall together."""


class AlertSeverity(NamedTuple):
    """How urgent alerts are, and why in a clause."""

    level: str
    because: str


@dataclass(frozen=True)
class AlertGroup:
    """Alerts in one row; most rows have one."""

    members: tuple[Row, ...]

    @property
    def head(self) -> Row:
        """The worst: one that brings no figure at all, else the largest fall."""
        return min(self.members, key=lambda row: -2.0 if row["change"] is None else _gain(row))

    @property
    def loss(self) -> float:
        """What its series lose at least, added up."""
        return sum(least_loss(row) for row in self.members)

    @property
    def severity(self) -> AlertSeverity:
        """Its severity: by certain size, by how many series fall, by what a confirmation found."""
        head, series = self.head, len(self.members)
        least = max(least_loss(row) for row in self.members)
        outcomes = {row["confirmation"] for row in self.members}
        if head["change"] is None:
            return AlertSeverity(HIGH, "brings no figure any more")
        if outcomes == {"not_confirmed"}:
            return AlertSeverity(LOW, "was not confirmed when it was measured again")
        if series >= MANY:
            return AlertSeverity(HIGH, f"{series} series fall together")
        if least >= LARGE:
            return AlertSeverity(HIGH, f"loses {percent(least)} at least")
        if "confirmed" in outcomes:
            return AlertSeverity(MEDIUM, "was confirmed when it was measured again")
        if least >= SMALL:
            return AlertSeverity(MEDIUM, f"loses {percent(least)} at least")
        if series > 1:
            return AlertSeverity(MEDIUM, f"{series} series fall together")
        return AlertSeverity(LOW, f"may lose less than {percent(SMALL, 0)}")

    @property
    def order(self) -> tuple[int, float, int]:
        """Sorts the worst first."""
        level = (HIGH, MEDIUM, LOW).index(self.severity.level)
        return level, -self.loss, -self.head["alert_id"]


def least_loss(row: Row) -> float:
    """Return the fall that is certain, relative: the near end of its interval.

    Without an interval half of the fall counts; without a figure everything is lost.
    """
    if row["change"] is None:
        return 1.0
    lower = info_of(row["metric"]).lower_is_better
    near = row["change_low"] if lower else row["change_high"]
    return max(0.0, -(_gain(row) / 2 if near is None else gain_of(near, row["metric"]) or 0.0))


def _gain(row: Row) -> float:
    return gain_of(row["change"], row["metric"]) or 0.0


def group_alerts(rows: Iterable[Row], together: Together = "cause") -> list[AlertGroup]:
    """Return groups of statement `page_alert_marks`, the worst first."""
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(_key(row, together), []).append(row)
    return sorted((AlertGroup(tuple(each)) for each in found.values()), key=lambda g: g.order)


def _key(row: Row, together: Together) -> object:
    if together == "cause" and row["group_key"]:
        return row["group_key"]
    if together == "onset":
        return row["cluster"], row["first_bad_run_id"] or row["opened_run_id"]
    return row["alert_id"]


def ids_of(groups: Sequence[AlertGroup]) -> list[int]:
    """Return the numbers of all alerts of some groups."""
    return [row["alert_id"] for group in groups for row in group.members]
