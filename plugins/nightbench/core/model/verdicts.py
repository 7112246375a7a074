"""What is made of it: the points of a history, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from nightbench.core.model.words import VerdictKind


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One night of a series."""

    at: datetime
    value: float
    run_id: str = ""
    n: int | None = None
    spread: float | None = None
    fingerprint_id: str | None = None
    definition_digest: str | None = None
    framework_version: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What a run says about a series, with the evidence in one sentence."""

    case_id: str
    cluster: str
    run_id: str
    kind: VerdictKind
    sentence: str
    value: float | None = None
    baseline: float | None = None
    change: float | None = None
    """value / baseline - 1: tonight's own; see `level_change`."""
    history: int = 0
    """Nights that the verdict rests on."""
    smallest_slowdown: float | None = None
    """Relative fall that the series would tell within a week in nine of ten cases."""
    level_change: float | None = None
    """Estimate of the relative change that `low` and `high` enclose; one night may lie outside."""
    low: float | None = None
    high: float | None = None
    """90 % interval of the relative change: of the level for regressed and improved, otherwise of
    what tonight's value says of it by itself."""
    since: datetime | None = None
    """First night at the new level, for regressed and improved."""
    first_bad_run_id: str | None = None
    """The run of that night."""
    last_good_run_id: str | None = None
    """The last run before it; of a failed or missing case the last one with a value."""
