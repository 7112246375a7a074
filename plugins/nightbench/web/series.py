"""Rows of results become series with a latest median. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import sentence, sentences

Row = Mapping[str, Any]

_REFUSED = ("quarantined", "failed", "left_out")


@dataclass(frozen=True)
class Point:
    """One result of a series."""

    at: datetime
    run_id: str
    throughput: float | None
    n: int
    spread: float | None
    state: str
    """What is to be said of it in one word: ok, regressed, improved, insufficient_data,
    quarantined, failed, unavailable, missing, cancelled, left_out, or measured where nobody has
    judged it."""
    sentence: str
    version: str | None
    run_kind: str

    @property
    def counts(self) -> bool:
        """Whether it is a median that passed the checks."""
        return self.throughput is not None and self.state not in _REFUSED


@dataclass(frozen=True)
class Series:
    """A case on a cluster: one line of history."""

    head: Row
    """Its axes, unit and cluster, from the newest result."""
    points: tuple[Point, ...]

    @property
    def newest(self) -> Point:
        """The newest result, whatever became of it."""
        return self.points[-1]

    @property
    def latest(self) -> Point | None:
        """The newest median that counts."""
        return next((point for point in reversed(self.points) if point.counts), None)

    @property
    def latest_row(self) -> Row:
        """Figures that stand beside the latest median."""
        return self.head if self.latest is self.newest else {}

    @property
    def median(self) -> float | None:
        """Median of all medians that count, for the line in the plot."""
        values = [p.throughput for p in self.points if p.counts and p.throughput is not None]
        return statistics.median(values) if values else None


def gather(rows: Iterable[Row]) -> list[Series]:
    """Series from rows that are ordered by series and then by date."""
    found = []
    for _, group in itertools.groupby(rows, key=lambda row: (row["case_id"], row["cluster"])):
        several = list(group)
        found.append(Series(several[-1], tuple(point(row) for row in several)))
    return found


def point(row: Row) -> Point:
    """One result."""
    return Point(
        at=row["started_at"],
        run_id=row["run_id"],
        throughput=row["throughput"],
        n=row["n"],
        spread=row["spread"],
        state=state(row),
        sentence="; ".join(why(row)),
        version=row["framework_version"],
        run_kind=row["run_kind"],
    )


def state(row: Row) -> str:
    """What is to be said of a result in one word."""
    # A failed case fails a check as well: failed says more, and the command says it too.
    if row["status"] != "ok":
        return str(row["status"])
    if row["quarantined"]:
        return "quarantined"
    return str(row["verdict"] or "measured")


def why(row: Row) -> list[str]:
    """Sentences on a result: its verdict, or why it has none; of a quarantined one the checks."""
    if row["status"] == "ok" and row["quarantined"]:
        return [sentence(reason) for reason in reasons_from_json(row["quarantine_reasons"])]
    said = row["verdict_sentence"] or sentences(reasons_from_json(row["reasons"]))
    return [said] if said else []


# --- figures for people -------------------------------------------------------------------


def figure(value: float | None) -> str:
    """A throughput to four significant digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:#.4g}".rstrip(".")


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction as a percentage."""
    return "–" if value is None else f"{value * 100:.{digits}f} %"


def ago(then: datetime, now: datetime) -> str:
    """How long ago, in the largest whole unit."""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        number = int(seconds // length)
        if number:
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


def day(moment: datetime) -> str:
    """A date and time in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
