"""What a night's time for its suspected regressions brought, for its message. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from nightbench.core.budget import duration
from nightbench.core.model.alerts import ConfirmationResult
from nightbench.warehouse.experiments import NIGHTBENCH


def notes(confirmations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence about the confirmations of a run; none where it has requested none."""
    rows = [row for row in confirmations if row["asked_by"] == NIGHTBENCH]
    ended = [row for row in rows if row["outcome"] is not None]
    if not rows:
        return []
    said = f"{len(ended)} of {len(rows)} suspected regressions"
    if ended:
        took = max(row["ended_at"] for row in ended) - min(row["asked_at"] for row in rows)
        found = Counter(row["outcome"] for row in ended)
        outcomes = ", ".join(
            f"{found[each]} {each.replace('_', ' ')}" for each in ConfirmationResult if found[each]
        )
        said += f", within {duration(took.total_seconds())}: {outcomes}"
    narrowed = [
        (now, before)
        for row in ended
        if (now := _half(row)) is not None and (before := _half(row["detail"])) is not None
    ]
    if narrowed:
        now, before = (median(side) for side in zip(*narrowed, strict=True))
        said += (
            f"; a fall is known to ±{now:.1%} now, by the nights alone to ±{before:.1%} (median)"
        )
    left = [row for row in rows if row["state"] == "skipped"]
    return [said + (f"; {len(left)} had no time, their alerts say why" if left else "")]


def _half(row: Mapping[str, Any]) -> float | None:
    low, high = row.get("low"), row.get("high")
    return None if low is None or high is None else (high - low) / 2
