"""One alert for what many series share: which member has it, and which are covered by it. Pure."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Self

from nightbench.alerts.alert_changes import LiveAlert, is_same_event
from nightbench.core.model import Verdict, VerdictKind
from nightbench.detection.factors import APART, Factor, FactorKind, SharedChange
from nightbench.detection.shared_changes import MAJORITY

MOST_MEMBERS = 20
"""Members that the sentence of an alert names."""

RECOVERED_BELOW = 0.5
"""Part of a shared change below which a night shows recovery, as for the alert of one series."""


@dataclass(frozen=True)
class LiveSharedChange:
    """A shared change whose alert is live, or dismissed while its event continues."""

    alert_id: int
    case_id: str
    """The series that has the alert."""
    factor: Factor
    since: date
    members: Mapping[str, float]
    """Every series that was a member on some night -> its own relative change, the newest one."""

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> list[Self]:
        """Return the shared changes of the rows of the statement `live_shared_changes`."""
        found: dict[int, Self] = {}
        for row in rows:
            factor = Factor(FactorKind(row["factor"]), row["name"])
            new = cls(row["alert_id"], row["case_id"], factor, row["since"], {})
            known = found.get(new.alert_id, new)
            found[new.alert_id] = replace(known, members={**known.members, **row["members"]})
        return list(found.values())

    def has(self, verdict: Verdict) -> bool:
        """Return whether a verdict on a member dates its drop as this shared change."""
        return verdict.case_id in self.members and _is_near(verdict, self.since)


@dataclass(frozen=True)
class SharedAlerts:
    """Verdicts with one voice for each shared change."""

    verdicts: Sequence[Verdict]
    """Those of covered members are `ok`, since another series has the alert."""
    lead: Mapping[int, str]
    """Index of a shared drop -> case_id of the member that has its alert."""
    adopted: Sequence[LiveAlert] = ()
    """Alerts of one series that become those of a shared change: people are notified again."""
    joined: Mapping[int, str] = field(default_factory=dict)
    """alert_id of a member whose own alert ends -> the shared change that it is part of."""


def share_alerts(
    verdicts: Iterable[Verdict],
    shared_changes: Sequence[SharedChange],
    live: Sequence[LiveSharedChange],
    own: Collection[str] = (),
    noisy: Collection[str] = (),
    alerts: Iterable[LiveAlert] = (),
    remaining: Mapping[int, float] | None = None,
) -> SharedAlerts:
    """Give each shared change one member that alerts, and silence the others.

    A member that has an alert of the drop already becomes the one; the alerts of other members end
    as part of it. While the alert is live, the members together decide whether it has recovered,
    and no longer the value of the member that has the alert.

    Args:
        verdicts: of one run that may change alerts.
        shared_changes: of the same run.
        live: shared changes that have an alert.
        own: case_ids of members that show a change of their own: they alert as well.
        noisy: case_ids of noisy series, which cannot alert.
        alerts: live ones, and dismissed ones whose event continues.
        remaining: alert_id of a live shared change -> part of it that its members show tonight.
    """
    by_case = {verdict.case_id: verdict for verdict in verdicts}
    regressions = {alert.alert_id: alert for alert in alerts if alert.kind is VerdictKind.REGRESSED}
    open_alerts = {alert.case_id: alert for alert in regressions.values() if not alert.is_dismissed}
    lead: dict[int, str] = {}
    covered: set[str] = set()
    adopted: list[LiveAlert] = []
    joined: dict[int, str] = {}
    leading = {s.case_id for s in live}
    for number, shared in enumerate(shared_changes):
        if not shared.is_drop:
            continue
        known = next((s for s in live if shared.continues(s.factor, s.since)), None)
        if known is None and _is_known(shared, live):
            covered |= shared.members.keys() - own
            continue
        able = [
            verdict
            for case_id, verdict in by_case.items()
            if case_id in shared.members and case_id not in {*noisy, *own, *lead.values(), *leading}
        ]
        early = [v for v in able if _alerts_of_change(open_alerts.get(v.case_id), v, shared)]
        alert = regressions.get(known.alert_id) if known else None
        if known is not None:
            chosen = known.case_id
        elif able:
            chosen = min(
                early or able, key=lambda v: (v.smallest_slowdown or 1.0, v.case_id)
            ).case_id
            if early:
                alert = open_alerts[chosen]
                adopted.append(alert)
        else:
            continue
        lead[number] = chosen
        alerted_alone = {v.case_id for v in early} - {chosen}
        joined |= {open_alerts[case_id].alert_id: shared.sentence for case_id in alerted_alone}
        covered |= shared.members.keys() - own
        if chosen in by_case and by_case[chosen].value is not None:
            by_case[chosen] = _with_shared_change(by_case[chosen], shared, alert)
    for verdict in by_case.values():
        if verdict.case_id not in own and any(s.has(verdict) for s in live):
            covered.add(verdict.case_id)
    covered -= leading.union(lead.values())
    for each in live:
        part = (remaining or {}).get(each.alert_id)
        alert, tonight = regressions.get(each.alert_id), by_case.get(each.case_id)
        if part is None or alert is None or tonight is None or tonight.value is None:
            continue
        is_further = tonight.kind is VerdictKind.REGRESSED and not _is_near(tonight, each.since)
        if each.case_id not in lead.values() and not is_further:
            value = alert.value if part >= RECOVERED_BELOW else alert.baseline
            by_case[each.case_id] = replace(tonight, kind=VerdictKind.OK, value=value)
    quiet = [
        replace(verdict, kind=VerdictKind.OK)
        if case_id in covered and verdict.kind is VerdictKind.REGRESSED
        else verdict
        for case_id, verdict in by_case.items()
    ]
    return SharedAlerts(quiet, lead, adopted, joined)


def _is_known(shared: SharedChange, live: Sequence[LiveSharedChange]) -> bool:
    """Return whether most members of a shared change already belong to another alert."""
    near = [s for s in live if abs((s.since - shared.since).days) <= APART]
    known = sum(any(case_id in s.members for s in near) for case_id in shared.members)
    return known >= MAJORITY * len(shared.members)


def _is_near(verdict: Verdict, since: date) -> bool:
    """Return whether a verdict dates a change to about the day on which a shared change began."""
    return verdict.since is not None and abs((verdict.since.date() - since).days) <= APART


def _alerts_of_change(alert: LiveAlert | None, verdict: Verdict, shared: SharedChange) -> bool:
    is_same = alert is not None and is_same_event(alert, verdict)
    return is_same and verdict.kind is VerdictKind.REGRESSED and _is_near(verdict, shared.since)


def _with_shared_change(verdict: Verdict, shared: SharedChange, alert: LiveAlert | None) -> Verdict:
    """Return a verdict with the sentence and the size of a shared change, not of one night."""
    ranked = sorted(shared.members.items(), key=lambda member: member[1])
    named = ", ".join(f"{case_id} {change:+.1%}" for case_id, change in ranked[:MOST_MEMBERS])
    more = len(ranked) - MOST_MEMBERS
    sentence = f"{shared.sentence}. Series: {named}{f' and {more} more' if more > 0 else ''}."
    # Its own baseline may have followed the drop; that of the alert has not.
    baseline = (alert.baseline if alert else None) or verdict.baseline or verdict.value or math.nan
    change = shared.members.get(verdict.case_id, shared.change)
    return replace(
        verdict,
        kind=VerdictKind.REGRESSED,
        sentence=sentence,
        value=baseline * (1 + change),
        baseline=baseline,
        change=change,
    )
