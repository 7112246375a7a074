"""Decides which verdicts open, continue, resolve or reopen an alert. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from nightbench.core.model import AlertMetric, Verdict, VerdictKind, gain_of, info_of

_WITHOUT_RESULT = frozenset({VerdictKind.FAILED, VerdictKind.UNAVAILABLE, VerdictKind.MISSING})

RECOVERED, WORSE = "recovered", "worse"
"""Suspicions of one night that a second night must confirm."""


@dataclass(frozen=True)
class LiveAlert:
    """An alert whose event continues: live (at most one per series), or dismissed by a person."""

    case_id: str
    cluster: str
    kind: VerdictKind
    value: float | None = None
    baseline: float | None = None
    alert_id: int = 0
    is_dismissed: bool = False
    suspect: str | None = None
    """The suspicion of an earlier night: `recovered` or `worse`; None without one."""
    suspect_run_id: str | None = None
    suspect_at: datetime | None = None
    """Start of that night."""
    notified_change: float | None = None
    """Change that people were notified of; None while the alert waits for its message."""
    notified_low: float | None = None
    """The larger drop of its 90 % interval."""
    notified_high: float | None = None
    """The other end of it."""
    metric: AlertMetric = "throughput"
    suite: str = ""
    """Suite of the last run that reported it."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the alert of a row of the statement `continuing_alerts`."""
        return cls(**{**row, "kind": VerdictKind(row["kind"])})

    @property
    def midline(self) -> float | None:
        """Mean of the bad and the good level: a value on its better side has recovered."""
        if self.value is None or self.baseline is None:
            return None
        return (self.value + self.baseline) / 2

    @property
    def notified_gain(self) -> float | None:
        """The worst change that people were notified of, negative for the worse."""
        if self.notified_change is None:
            return None
        lower = info_of(self.metric).lower_is_better
        low = self.notified_high if lower else self.notified_low
        gains = [gain_of(each or 0.0, self.metric) for each in (self.notified_change, low)]
        return min(each for each in gains if each is not None)

    def worse_by(self, min_change: float) -> float:
        """Return the value that is worse than the alert's by a relative change; it has a value."""
        lower = info_of(self.metric).lower_is_better
        return (self.value or 0.0) * (1 + min_change if lower else 1 - min_change)

    def is_better(self, value: float, than: float) -> bool:
        """Return whether one value of its series is better than another."""
        return value < than if info_of(self.metric).lower_is_better else value > than

    def confirms(self, suspect: str, run_id: str, at: datetime) -> bool:
        """Return whether a night before `run_id`, which began at `at`, had the same suspicion."""
        return (
            self.suspect == suspect
            and self.suspect_run_id != run_id
            and self.suspect_at is not None
            and self.suspect_at < at
        )


@dataclass
class AlertChanges:
    """Changes of alerts by a run; resolve first, then open."""

    to_open: list[Verdict] = field(default_factory=list)
    """Verdicts that open an alert and are sent."""
    to_continue: list[Verdict] = field(default_factory=list)
    """Verdicts that a live alert covers: nothing is sent."""
    to_resolve: list[LiveAlert] = field(default_factory=list)
    """Live alerts that end, and dismissed ones whose event is over."""
    to_reopen: list[tuple[LiveAlert, Verdict]] = field(default_factory=list)
    """Dismissed alerts that became worse; they are sent."""
    to_grow: list[LiveAlert] = field(default_factory=list)
    """Continued alerts whose change has grown since they were sent; they are sent again."""
    to_watch: list[tuple[LiveAlert, str | None]] = field(default_factory=list)
    """Alerts with a new suspicion; None withdraws the earlier one."""


def alerts_for(
    verdicts: Iterable[Verdict],
    continuing: Iterable[LiveAlert],
    at: datetime,
    min_change: float = 0.03,
    noisy: Collection[str] = (),
) -> AlertChanges:
    """Decide which alerts a run opens, continues, resolves and reopens.

    The verdicts `regressed`, `failed`, `unavailable` and `missing` open alerts. An alert stays live
    while its series has the same verdict. It is sent again only if its change grows, that is, if
    two nights are below the interval that was sent by more than `min_change`. A regression ends
    when the values of two nights are above half of the drop, not when the baseline has followed it
    down. A drop from the lower level is a new alert. A failed or missing case ends with the second
    value in a row. A dismissed alert stays silent while its event continues, and is reopened if two
    nights are further down.

    Args:
        verdicts: of one run.
        continuing: live alerts, and dismissed ones whose event continues, oldest first.
        at: when the run began.
        min_change: the suite's smallest relative change that is reported.
        noisy: case_ids of noisy series: their level opens, continues, resolves and reopens
            nothing; a missing value and a new one count as usual.
    """
    current: dict[tuple[str, str], LiveAlert] = {}
    dismissed: dict[tuple[str, str, bool], LiveAlert] = {}
    for alert in continuing:
        key = (alert.case_id, alert.cluster)
        if alert.is_dismissed:
            dismissed[*key, alert.kind in _WITHOUT_RESULT] = alert
        else:
            current[key] = alert
    decider = _Decider(at, min_change, noisy)
    for verdict in verdicts:
        key = (verdict.case_id, verdict.cluster)
        old = [dismissed.get((*key, without)) for without in (False, True)]
        decider.decide(verdict, current.get(key), [alert for alert in old if alert is not None])
    return decider.changes


@dataclass
class _Decider:
    at: datetime
    min_change: float
    noisy: Collection[str]
    changes: AlertChanges = field(default_factory=AlertChanges)

    def decide(
        self, verdict: Verdict, alert: LiveAlert | None, dismissed: Iterable[LiveAlert]
    ) -> None:
        if verdict.case_id in self.noisy and verdict.kind not in _WITHOUT_RESULT:
            # A noisy series' level proves no drop and no recovery; a value ends a failure.
            verdict = replace(verdict, kind=VerdictKind.OK)
            dismissed = [old for old in dismissed if old.kind in _WITHOUT_RESULT]
            if alert is not None and alert.kind not in _WITHOUT_RESULT:
                self._clear_suspicion(alert)
                alert = None
        quiet = any([self._is_dismissed_event(old, verdict, alert is None) for old in dismissed])
        seen = verdict.kind in _WITHOUT_RESULT or verdict.kind is VerdictKind.REGRESSED
        if alert is None:
            if seen and not quiet:
                self.changes.to_open.append(verdict)
        elif seen and is_same_event(alert, verdict):
            self.changes.to_continue.append(verdict)
            grown = _has_grown(alert, verdict, self.min_change)
            if grown and self._seen_twice(alert, WORSE, verdict):
                self.changes.to_grow.append(alert)
        elif seen:
            self.changes.to_resolve.append(alert)
            if not quiet:
                self.changes.to_open.append(verdict)
        elif _has_recovered(alert, verdict):
            if self._seen_twice(alert, RECOVERED, verdict):
                self.changes.to_resolve.append(alert)
        else:
            self._clear_suspicion(alert)

    def _is_dismissed_event(self, old: LiveAlert, verdict: Verdict, may_reopen: bool) -> bool:
        """Return whether a verdict is the event that was dismissed, so that it opens no alert."""
        without = verdict.kind in _WITHOUT_RESULT
        if without != (old.kind in _WITHOUT_RESULT):
            # A night without a value proves nothing about the level; a value ends a failure.
            if not without and self._seen_twice(old, RECOVERED, verdict):
                self.changes.to_resolve.append(old)
            return False
        if without:
            self._clear_suspicion(old)
            return True
        if _has_recovered(old, verdict):
            if self._seen_twice(old, RECOVERED, verdict):
                self.changes.to_resolve.append(old)
            return verdict.kind is VerdictKind.REGRESSED
        is_worse = (
            verdict.kind is VerdictKind.REGRESSED
            and verdict.value is not None
            and old.value is not None
            and old.is_better(old.worse_by(self.min_change), verdict.value)
        )
        if not is_worse:
            self._clear_suspicion(old)
        elif self._seen_twice(old, WORSE, verdict) and may_reopen:
            self.changes.to_reopen.append((old, verdict))
        return True

    def _seen_twice(self, alert: LiveAlert, suspect: str, verdict: Verdict) -> bool:
        """Return whether this night confirms an earlier suspicion; store the first one."""
        if alert.confirms(suspect, verdict.run_id, self.at):
            return True
        if alert.suspect != suspect:
            self.changes.to_watch.append((alert, suspect))
        return False

    def _clear_suspicion(self, alert: LiveAlert) -> None:
        if alert.suspect is not None:
            self.changes.to_watch.append((alert, None))


def is_same_event(alert: LiveAlert, verdict: Verdict) -> bool:
    """Return whether a verdict is on what a series has an alert of, not on a further drop."""
    if verdict.kind in _WITHOUT_RESULT or alert.kind in _WITHOUT_RESULT:
        return verdict.kind in _WITHOUT_RESULT and alert.kind in _WITHOUT_RESULT
    # A baseline below the midline has followed the first drop, so this is a second drop.
    midline = alert.midline
    baseline = verdict.baseline
    return midline is None or baseline is None or alert.is_better(baseline, midline)


def _has_grown(alert: LiveAlert, verdict: Verdict, min_change: float) -> bool:
    """Return whether a night is lower than the notified value by more than `min_change`."""
    notified, gain = alert.notified_gain, verdict.gain
    return notified is not None and gain is not None and gain < notified - min_change


def _has_recovered(alert: LiveAlert, verdict: Verdict) -> bool:
    if alert.kind in _WITHOUT_RESULT:
        # A case that was measured without the judged metric still has a result.
        return verdict.kind not in _WITHOUT_RESULT
    if verdict.value is None:
        return False
    return alert.midline is None or alert.is_better(verdict.value, alert.midline)
