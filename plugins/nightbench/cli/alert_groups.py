"""Shows alerts grouped by cause: the lines of the list, and the cause of one alert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nightbench.core.model.alerts import CauseEvidence
from nightbench.core.sentences import evidence_sentence

if TYPE_CHECKING:
    from nightbench.warehouse import Warehouse

Row = dict[str, Any]

LIVE = ("open", "acknowledged")
COLUMNS = ("id", "series", "state", "owner", "what", "case", "cause", "cluster", "since (UTC)")
SHOWN = 50
"""Largest number of alerts of the same cause that are listed."""
_MOST = 100_000


def table_of(rows: Iterable[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the columns that are not empty, and a line for each group."""
    from nightbench.warehouse.alerts import worst_first

    lines = [_cells(group) for group in worst_first(rows)]
    kept = [k for k in range(len(COLUMNS)) if any(line[k] for line in lines)]
    return [COLUMNS[k] for k in kept], [[line[k] for k in kept] for line in lines]


def _cells(group: Sequence[Row]) -> tuple[str, ...]:
    """Return the line of a group, which shows its worst series."""
    first = group[0]
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    since = min(row["opened_at"] for row in group)
    return (
        str(first["alert_id"]),
        str(len(group)),
        _counted(state(row) for row in group),
        _counted(row["owner"] or "" for row in group),
        what(first) + (" at worst" if more and first["change"] is not None else ""),
        first["case_id"] + more,
        _cause_word(first),
        first["cluster"],
        f"{since:%Y-%m-%d}",
    )


def cause_of(row: Row) -> list[str]:
    """Return the lines of an alert's cause with all evidence; none if it has no cause."""
    if row["cause"] is None:
        return []
    lines = [f"cause: {_words(row['cause'])}: {row['cause_sentence']}"]
    evidence = map(CauseEvidence.from_json, row["evidence"])
    return lines + [f"  - {evidence_sentence(each)}" for each in evidence]


def others_of_cause(warehouse: Warehouse, alert_id: int) -> list[Row]:
    """Return the other alerts of an alert's group, live alerts first, then the worst."""
    rows = warehouse.alerts.find(states=None, alert_id=alert_id)
    key = rows[0]["group_key"] if rows else None
    if not key:
        return []
    found = warehouse.alerts.find(states=None, group=key, limit=_MOST)
    others = [row for row in found if row["alert_id"] != alert_id]
    return sorted(others, key=lambda row: (row["state"] not in LIVE, row["place"]))


def others_of(others: Sequence[Row]) -> list[str]:
    """Return a line for each of the other alerts of one cause, up to `SHOWN`."""
    if not others:
        return []
    lines = [f"{len(others)} other series with the same cause (--group acts on all):"]
    width = max(len(str(row["alert_id"])) for row in others)
    lines += [
        f"  {row['alert_id']:>{width}}  {row['case_id']}: {what(row)}, {state(row)}"
        for row in others[:SHOWN]
    ]
    if len(others) > SHOWN:
        lines.append(f"  and {len(others) - SHOWN} more: --json lists all")
    return [*lines, ""]


def what(row: Row) -> str:
    """Return `regressed by 5.1%`, or `mfu regressed by 5.1%` if the metric is not throughput."""
    change = row["change"]
    of = "" if row["metric"] in ("throughput", "training") else f"{row['metric']} "
    return of + str(row["verdict"]) + (f" by {abs(change):.1%}" if change is not None else "")


def state(row: Row) -> str:
    """Return its state, with the reason of dismissal or the end of a snooze."""
    found = str(row["state"])
    if row["dismissed_as"]:
        return f"{found} ({row['dismissed_as'].replace('_', ' ')})"
    if row["snoozed_until"] and row["snoozed_until"] > datetime.now(UTC):
        return f"{found}, snoozed until {row['snoozed_until']:%Y-%m-%d %H:%M}"
    return found


def _counted(words: Iterable[str]) -> str:
    """Return `open`, or `38 open, 2 acknowledged` if the states differ."""
    counts = Counter(words)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {word or 'nobody'}" for word, count in counts.most_common())


def _cause_word(row: Row) -> str:
    if row["cause"] is None:
        return ""
    suspect = f": {row['cause_suspect']}" if row["cause_suspect"] else ""
    return f"{_words(row['cause'])}{suspect}"


def _words(kind: str) -> str:
    return kind.replace("_", " ")
