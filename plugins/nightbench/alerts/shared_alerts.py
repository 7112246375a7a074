"""One alert for what many series share: which member has it, and which are covered by it. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from nightbench.alerts.alert_changes import LiveAlert, says_the_same
from nightbench.core.model import Verdict, VerdictKind
from nightbench.detection.factors import APART, Factor, FactorKind, SharedChange
from nightbench.detection.shared_changes import MAJORITY

MOST_MEMBERS = 20
"""Members that the sentence of an alert names."""

RECOVERED_BELOW = 0.5
"""Part of a movement below which a night shows it recovered, as for the alert of one series."""


@dataclass(frozen=True)
class StandingMovement:
    """A shared change whose alert is live, or dismissed while its event continues."""

    alert_id: int
    case_id: str
    """The series that has the alert."""
    factor: Factor
    since: date
    members: Mapping[str, float]
    """Every series that was a member on some night -> its own relative change, the newest one."""

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> list[StandingMovement]:
        """Return the shared changes of the rows of the statement `standing_movements`."""
        found: dict[int, StandingMovement] = {}
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
    """Index of a movement that falls -> case_id of the member that has its alert."""
    adopted: Sequence[LiveAlert] = ()
    """Alerts of one series that are a movement's from tonight on: people are notified again."""
    joined: Mapping[int, str] = field(default_factory=dict)
    """alert_id of a member that was told alone, which ends -> the movement that it is part of."""


def share_alerts(
    verdicts: Iterable[Verdict],
    movements: Sequence[SharedChange],
    standing: Sequence[StandingMovement],
    own: Collection[str] = (),
    noisy: Collection[str] = (),
    alerts: Iterable[LiveAlert] = (),
    remaining: Mapping[int, float] | None = None,
) -> SharedAlerts:
    """Give each shared change one member that alerts, and silence the others.

    A member that showed the fall before the others, and has an alert of it, becomes the one; alerts
    of further members end as part of it. While a movement's alert stands, its members together say
    whether it has recovered: the value of the one that has the alert counts no more.

    Args:
        verdicts: of one run that may change alerts.
        movements: of the same run.
        standing: movements that have an alert.
        own: case_ids of members that show a change of their own: they alert beside it.
        noisy: case_ids of noisy series, which cannot alert.
        alerts: those that stand.
        remaining: alert_id of a standing movement -> part of it that its members show tonight.
    """
    by_case = {verdict.case_id: verdict for verdict in verdicts}
    falls = {alert.alert_id: alert for alert in alerts if alert.kind is VerdictKind.REGRESSED}
    fallen = {alert.case_id: alert for alert in falls.values() if not alert.is_dismissed}
    lead: dict[int, str] = {}
    covered: set[str] = set()
    adopted: list[LiveAlert] = []
    joined: dict[int, str] = {}
    leading = {s.case_id for s in standing}
    for number, movement in enumerate(movements):
        if not movement.falls:
            continue
        known = next((s for s in standing if movement.continues(s.factor, s.since)), None)
        if known is None and _is_known(movement, standing):
            covered |= movement.members.keys() - own
            continue
        able = [
            verdict
            for case_id, verdict in by_case.items()
            if case_id in movement.members
            and case_id not in {*noisy, *own, *lead.values(), *leading}
        ]
        early = [v for v in able if _tells(fallen.get(v.case_id), v, movement)]
        alert = falls.get(known.alert_id) if known else None
        if known is not None:
            chosen = known.case_id
        elif able:
            chosen = min(
                early or able, key=lambda v: (v.smallest_slowdown or 1.0, v.case_id)
            ).case_id
            if early:
                alert = fallen[chosen]
                adopted.append(alert)
        else:
            continue
        lead[number] = chosen
        told_alone = {v.case_id for v in early} - {chosen}
        joined |= {fallen[case_id].alert_id: movement.sentence for case_id in told_alone}
        covered |= movement.members.keys() - own
        if chosen in by_case and by_case[chosen].value is not None:
            by_case[chosen] = _of_movement(by_case[chosen], movement, alert)
    for verdict in by_case.values():
        if verdict.case_id not in own and any(s.has(verdict) for s in standing):
            covered.add(verdict.case_id)
    covered -= leading.union(lead.values())
    for each in standing:
        part = (remaining or {}).get(each.alert_id)
        alert, told = falls.get(each.alert_id), by_case.get(each.case_id)
        if part is None or alert is None or told is None or told.value is None:
            continue
        is_further = told.kind is VerdictKind.REGRESSED and not _is_near(told, each.since)
        if each.case_id not in lead.values() and not is_further:
            value = alert.value if part >= RECOVERED_BELOW else alert.baseline
            by_case[each.case_id] = replace(told, kind=VerdictKind.OK, value=value)
    quiet = [
        replace(verdict, kind=VerdictKind.OK)
        if case_id in covered and verdict.kind is VerdictKind.REGRESSED
        else verdict
        for case_id, verdict in by_case.items()
    ]
    return SharedAlerts(quiet, lead, adopted, joined)


def _is_known(movement: SharedChange, standing: Sequence[StandingMovement]) -> bool:
    """Return whether most members of a movement have an alert under other names already."""
    near = [s for s in standing if abs((s.since - movement.since).days) <= APART]
    known = sum(any(case_id in s.members for s in near) for case_id in movement.members)
    return known >= MAJORITY * len(movement.members)


def _is_near(verdict: Verdict, since: date) -> bool:
    """Return whether a verdict dates a change as a movement that began on a day."""
    return verdict.since is not None and abs((verdict.since.date() - since).days) <= APART


def _tells(alert: LiveAlert | None, verdict: Verdict, movement: SharedChange) -> bool:
    """Return whether an alert of a member is one of the fall that a movement is."""
    is_same = alert is not None and says_the_same(alert, verdict)
    return is_same and verdict.kind is VerdictKind.REGRESSED and _is_near(verdict, movement.since)


def _of_movement(verdict: Verdict, movement: SharedChange, alert: LiveAlert | None) -> Verdict:
    """Return a verdict in the words of a movement, whose value its own of one night may miss."""
    ranked = sorted(movement.members.items(), key=lambda member: member[1])
    named = ", ".join(f"{case_id} {change:+.1%}" for case_id, change in ranked[:MOST_MEMBERS])
    more = len(ranked) - MOST_MEMBERS
    sentence = f"{movement.sentence}. Series: {named}{f' and {more} more' if more > 0 else ''}."
    # Its own baseline may have followed the fall; that of the alert has not.
    baseline = (alert.baseline if alert else None) or verdict.baseline or verdict.value or math.nan
    change = movement.members.get(verdict.case_id, movement.change)
    return replace(
        verdict,
        kind=VerdictKind.REGRESSED,
        sentence=sentence,
        value=baseline * (1 + change),
        baseline=baseline,
        change=change,
    )
