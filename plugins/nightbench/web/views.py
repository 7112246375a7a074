"""Views of warehouse rows for the pages: series, groups of alerts, grades. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import sentence, sentences
from nightbench.web.page_queries import Row

GRADED_SLOWDOWN = "5%"
"""The planted slowdown in the sentence about grades; the table has all sizes."""
FALSE_ALARMS = "false alarms"

_REFUSED = ("quarantined", "failed", "left_out")


@dataclass(frozen=True)
class PointView:
    """One result of a series."""

    at: datetime
    run_id: str
    throughput: float | None
    n: int
    spread: float | None
    state: str
    """Its result in one word: ok, watched, regressed, improved, insufficient_data, private_build,
    quarantined, failed, unavailable, missing, cancelled, left_out, or measured where it is
    not judged."""
    sentence: str
    version: str | None
    run_kind: str
    is_private: bool = False
    """Its build was named for its run: a point of its own beside the series."""

    @property
    def counts(self) -> bool:
        """True for a median that passed the checks."""
        measured = self.throughput is not None and self.state not in _REFUSED
        return measured and not self.is_private


@dataclass(frozen=True)
class SeriesView:
    """A case on a cluster: one line of history."""

    head: Row
    """The row of `newest`: axes, unit and cluster, figures, and what is live."""
    points: tuple[PointView, ...]

    @property
    def newest(self) -> PointView:
        """The newest result of the suite's own build, also one without a value."""
        return self.points[_newest_own([point.is_private for point in self.points])]

    @property
    def latest(self) -> PointView | None:
        """The newest median that counts."""
        return next((point for point in reversed(self.points) if point.counts), None)

    @property
    def latest_row(self) -> Row:
        """Further figures of the latest median."""
        return self.head if self.latest is self.newest else {}

    @property
    def median(self) -> float | None:
        """Median of all medians that count, for the line in the plot."""
        values = [p.throughput for p in self.points if p.counts and p.throughput is not None]
        return statistics.median(values) if values else None


def series_views(rows: Iterable[Row]) -> list[SeriesView]:
    """Return series from rows that are ordered by series and then by date."""
    found = []
    for _, group in itertools.groupby(rows, key=lambda row: (row["case_id"], row["cluster"])):
        several = list(group)
        head = several[_newest_own([bool(row["private_build"]) for row in several])]
        found.append(SeriesView(head, tuple(point_view(row) for row in several)))
    return found


def _newest_own(private: list[bool]) -> int:
    """Index of the last result that is not a private build's; of the last one where all are."""
    return max((i for i, is_private in enumerate(private) if not is_private), default=-1)


def point_view(row: Row) -> PointView:
    """Return the view of one result."""
    return PointView(
        at=row["started_at"],
        run_id=row["run_id"],
        throughput=row["throughput"],
        n=row["n"],
        spread=row["spread"],
        state=result_state(row),
        sentence="; ".join(result_sentences(row)),
        version=row["framework_version"],
        run_kind=row["run_kind"],
        is_private=bool(row["private_build"]),
    )


def result_state(row: Row) -> str:
    """Return a result in one word."""
    # A failed case fails a check as well; failed is more specific, as in the command's table.
    if row["status"] != "ok":
        return str(row["status"])
    if row["quarantined"]:
        return "quarantined"
    if row["private_build"]:
        return "private_build"
    return str(row["verdict"] or "measured")


def result_sentences(row: Row) -> list[str]:
    """Return the sentence of its verdict, or why it has none; the failed checks if quarantined."""
    if row["status"] == "ok" and row["quarantined"]:
        return [sentence(reason) for reason in reasons_from_json(row["quarantine_reasons"])]
    said = row["verdict_sentence"] or sentences(reasons_from_json(row["reasons"]))
    return [said] if said else []


# --- alerts -------------------------------------------------------------------------------


@dataclass(frozen=True)
class AlertGroup:
    """Alerts of one cause; most groups have one."""

    members: tuple[Row, ...]
    """Newest first."""

    @property
    def head(self) -> Row:
        """The alert with the largest fall."""
        return min(self.members, key=lambda row: row["change"] or 0.0)

    @property
    def states(self) -> str:
        """Number of alerts by state, as text."""
        counts = Counter(row["state"] for row in self.members)
        return ", ".join(f"{number} {state}" for state, number in counts.items())


def group_alerts(rows: Iterable[Row]) -> list[AlertGroup]:
    """Return rows of `PageQueries.find_alerts` grouped by cause, in the order of their first."""
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(row.get("group_key") or row["alert_id"], []).append(row)
    return [AlertGroup(tuple(members)) for members in found.values()]


# --- grades of the detector ---------------------------------------------------------------


def grade_sentences(grades: Iterable[Row]) -> list[str]:
    """Return one sentence for each suite and cluster with grades."""
    found = []
    for (suite, cluster), rows in itertools.groupby(
        grades, key=lambda row: (row["suite"], row["cluster"])
    ):
        by_measure = {row["measure"]: row for row in rows}
        parts = [_power(by_measure.get(GRADED_SLOWDOWN)), _alarms(by_measure.get(FALSE_ALARMS))]
        if said := "; ".join(filter(None, parts)):
            found.append(f"{suite} on {cluster}: {said}.")
    return found


def _power(row: Row | None) -> str:
    if row is None or row["rate"] is None:
        return ""
    delay = row["median_delay"]
    after = "" if delay is None else f", after {delay:g} nights in the median"
    return (
        f"the detector found {percent(row['rate'], 0)} ({percent(row['low'], 0)} to "
        f"{percent(row['high'], 0)}) of "
        f"{row['trials']:,} planted slowdowns of 5 % within two weeks{after}"
    )


def _alarms(row: Row | None) -> str:
    if row is None or row["rate"] is None:
        return ""
    return f"{row['rate']:.1f} false alarms in 1,000 nights ({row['low']:.1f} to {row['high']:.1f})"


# --- figures as text ----------------------------------------------------------------------


def figure(value: float | None) -> str:
    """Return a throughput to four significant digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:#.4g}".rstrip(".")


def percent(value: float | None, digits: int = 1) -> str:
    """Return a fraction as a percentage."""
    return "–" if value is None else f"{value * 100:.{digits}f} %"


def ago(then: datetime, now: datetime) -> str:
    """Return how long ago, in the largest whole unit."""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        number = int(seconds // length)
        if number:
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


def day(moment: datetime) -> str:
    """Return a date and time in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
