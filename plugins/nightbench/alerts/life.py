"""The life of an alert: which verdicts open one, and what ends it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nightbench.model import Verdict, VerdictKind

_WITHOUT_RESULT = frozenset({VerdictKind.FAILED, VerdictKind.MISSING})


@dataclass(frozen=True)
class LiveAlert:
    """An open or acknowledged alert; a series has at most one."""

    case_id: str
    cluster: str
    kind: VerdictKind
    value: float | None = None
    baseline: float | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> LiveAlert:
        """From a row of `marts.fct_alert`."""
        return cls(
            case_id=row["case_id"],
            cluster=row["cluster"],
            kind=VerdictKind(row["verdict"]),
            value=row["value"],
            baseline=row["baseline"],
        )

    @property
    def midline(self) -> float | None:
        """Half way between the bad level and the good one: a value above it has recovered."""
        if self.value is None or self.baseline is None:
            return None
        return (self.value + self.baseline) / 2


@dataclass(frozen=True)
class AlertChanges:
    """What a run does to the alerts; resolve first, then open."""

    to_open: tuple[Verdict, ...]
    """News: each opens an alert and is sent."""
    to_continue: tuple[Verdict, ...]
    """Verdicts that a live alert already says: nothing is sent."""
    to_resolve: tuple[LiveAlert, ...]


def alerts_for(verdicts: Iterable[Verdict], live: Iterable[LiveAlert]) -> AlertChanges:
    """Decide which alerts a run opens, continues and resolves.

    `regressed`, `failed` and `missing` are seen by somebody. While a series says the same, its
    alert lives and nothing is repeated. A regression ends when a value comes back above half of
    the fall, not when the baseline has followed it down; a fall from the lower level is a new
    alert. A failed or missing case ends with the next value.
    """
    by_series = {(alert.case_id, alert.cluster): alert for alert in live}
    opened: list[Verdict] = []
    continued: list[Verdict] = []
    resolved: list[LiveAlert] = []
    for verdict in verdicts:
        alert = by_series.get((verdict.case_id, verdict.cluster))
        seen = verdict.kind in _WITHOUT_RESULT or verdict.kind is VerdictKind.REGRESSED
        if alert is None:
            if seen:
                opened.append(verdict)
        elif seen and _says_the_same(alert, verdict):
            continued.append(verdict)
        elif seen:
            resolved.append(alert)
            opened.append(verdict)
        elif _has_recovered(alert, verdict):
            resolved.append(alert)
    return AlertChanges(tuple(opened), tuple(continued), tuple(resolved))


def _says_the_same(alert: LiveAlert, verdict: Verdict) -> bool:
    if verdict.kind in _WITHOUT_RESULT or alert.kind in _WITHOUT_RESULT:
        return verdict.kind in _WITHOUT_RESULT and alert.kind in _WITHOUT_RESULT
    # A baseline below the midline has followed the first fall: this is a second one.
    midline = alert.midline
    return midline is None or verdict.baseline is None or verdict.baseline > midline


def _has_recovered(alert: LiveAlert, verdict: Verdict) -> bool:
    if verdict.value is None:
        return False
    if alert.kind in _WITHOUT_RESULT or alert.midline is None:
        return True
    return verdict.value > alert.midline
