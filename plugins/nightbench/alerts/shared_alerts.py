"""One alert for what many series share: which member has it, and which are covered by it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from nightbench.core.model import Verdict, VerdictKind
from nightbench.detection.factors import APART, Factor, FactorKind, SharedMovement

MOST_MEMBERS = 20
"""Members that the sentence of an alert names."""


@dataclass(frozen=True)
class StandingMovement:
    """A movement whose alert is live, or dismissed while its event goes on."""

    alert_id: int
    case_id: str
    """The series that has the alert."""
    factor: Factor
    since: date
    members: frozenset[str]
    """Every series that was a member on some night."""

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> list[StandingMovement]:
        """Return the movements of the rows of the statement `standing_movements`."""
        found: dict[int, StandingMovement] = {}
        for row in rows:
            factor = Factor(FactorKind(row["factor"]), row["name"])
            new = cls(row["alert_id"], row["case_id"], factor, row["since"], frozenset())
            known = found.get(new.alert_id, new)
            found[new.alert_id] = replace(known, members=known.members | set(row["members"]))
        return list(found.values())

    def has(self, verdict: Verdict) -> bool:
        """Return whether a verdict on a member dates its fall as this movement."""
        near = verdict.since and abs((verdict.since.date() - self.since).days) <= APART
        return verdict.case_id in self.members and bool(near)


@dataclass(frozen=True)
class SharedAlerts:
    """Verdicts with one voice for each movement."""

    verdicts: Sequence[Verdict]
    """Those of covered members are `ok`, since another series has the alert."""
    lead: Mapping[int, str]
    """Index of a movement that falls -> case_id of the member that has its alert."""


def share_alerts(
    verdicts: Iterable[Verdict],
    movements: Sequence[SharedMovement],
    standing: Sequence[StandingMovement],
    own: Collection[str] = (),
    noisy: Collection[str] = (),
) -> SharedAlerts:
    """Give each falling movement one member that alerts, and silence the others.

    Args:
        verdicts: of one run that may change alerts.
        movements: of the same run.
        standing: movements that have an alert.
        own: case_ids of members that show a change of their own: they alert beside it.
        noisy: case_ids of noisy series, which cannot alert.
    """
    by_case = {verdict.case_id: verdict for verdict in verdicts}
    lead: dict[int, str] = {}
    covered: set[str] = set()
    for number, movement in enumerate(movements):
        if not movement.falls:
            continue
        known = next((s for s in standing if s.factor == movement.factor), None)
        if known is not None and abs((known.since - movement.since).days) <= APART:
            chosen = known.case_id
        else:
            able = [
                verdict
                for verdict in by_case.values()
                if verdict.case_id in movement.members
                and verdict.case_id not in noisy
                and verdict.case_id not in own
                and verdict.case_id not in lead.values()
            ]
            if not able:
                continue
            chosen = min(able, key=lambda v: (v.smallest_slowdown or 1.0, v.case_id)).case_id
        lead[number] = chosen
        covered |= movement.members.keys() - own
        if chosen in by_case and by_case[chosen].value is not None:
            by_case[chosen] = _of_movement(by_case[chosen], movement)
    for verdict in by_case.values():
        if verdict.case_id not in own and any(s.has(verdict) for s in standing):
            covered.add(verdict.case_id)
    covered -= set(lead.values()) | {s.case_id for s in standing}
    quiet = [
        replace(verdict, kind=VerdictKind.OK)
        if case_id in covered and verdict.kind is VerdictKind.REGRESSED
        else verdict
        for case_id, verdict in by_case.items()
    ]
    return SharedAlerts(quiet, lead)


def _of_movement(verdict: Verdict, movement: SharedMovement) -> Verdict:
    """Return the verdict of the series that has a movement's alert, in the movement's words."""
    ranked = sorted(movement.members.items(), key=lambda member: member[1])
    named = ", ".join(f"{case_id} {change:+.1%}" for case_id, change in ranked[:MOST_MEMBERS])
    more = len(ranked) - MOST_MEMBERS
    sentence = f"{movement.sentence}. Series: {named}{f' and {more} more' if more > 0 else ''}."
    return replace(verdict, kind=VerdictKind.REGRESSED, sentence=sentence)
