"""Judges the nights of a drill: its alert lives here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nightbench.alerts import AlertItem, LiveAlert, Message, alerts_for, message
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, HistoryPoint, Measurement, Verdict, VerdictKind
from nightbench.detection import Judgement, judge_cases
from nightbench.detection.run import point_of
from nightbench.experiments.drills import Document, Drill, folder_of, known_of, nights_of, run_id_of
from nightbench.night.bundles import build_bundle
from nightbench.spool import Spool, utc_now
from nightbench.spool.plans import read_plan


@dataclass(frozen=True)
class Night:
    """A night of a drill, measured and judged."""

    number: int
    sleep_s: float
    """In each step."""
    measurement: Measurement
    verdict: Verdict
    judgement: Judgement | None
    opened: bool
    """It opened the alert."""


def judged(drill: Drill, spool: Spool, nights: int) -> list[Night]:
    """Judge the first nights of a drill, each by those before it, as real nights are.

    The detector is the suite's, and so is the rule of what opens an alert.
    """
    own = nights_of(spool, drill)
    history: list[HistoryPoint] = []
    standing: list[LiveAlert] = []
    found = []
    document = known_of(folder_of(spool, drill.drill_id))
    for number in range(1, nights + 1):
        folder = own.run(run_id_of(drill, number))
        plan = read_plan(folder)
        measurement = build_bundle(folder).cases[0].measurement
        if measurement is None:
            raise UserError(f"{folder.run_id}: brought no result")
        ((verdict, judgement),) = judge_cases(
            plan.run,
            [drill.case_id],
            {drill.case_id: measurement},
            {drill.case_id: history},
            plan.policy,
        )
        changes = alerts_for([verdict], standing, plan.run.started_at, plan.policy.min_change)
        standing = _lived(standing, changes.to_resolve, changes.to_open)
        sleep_s = document["sleep_s"] or 0.0 if number >= drill.first_slow else 0.0
        found.append(Night(number, sleep_s, measurement, verdict, judgement, bool(changes.to_open)))
        if measurement.status is CaseStatus.OK and not measurement.quarantined:
            history.append(point_of(plan.run, measurement))
    return found


def _lived(
    standing: Sequence[LiveAlert], ended: Sequence[LiveAlert], opened: Sequence[Verdict]
) -> list[LiveAlert]:
    """The alerts after a night; what one night only suspects is left to the real life of alerts."""
    return [
        *(alert for alert in standing if alert not in ended),
        *(LiveAlert(v.case_id, v.cluster, v.kind, v.value, v.baseline) for v in opened),
    ]


def arrived(drill: Drill, nights: Sequence[Night]) -> Night | None:
    """The night that raised the alert of the slowdown; None while none has."""
    return next(
        (
            night
            for night in nights
            if night.opened
            and night.verdict.kind is VerdictKind.REGRESSED
            and night.number >= drill.first_slow
        ),
        None,
    )


def alert_of(drill: Drill, spool: Spool, night: Night) -> Message:
    """The message of the alert, as a channel gets it, marked as a drill's."""
    run = read_plan(nights_of(spool, drill).run(run_id_of(drill, night.number))).run
    judgement = night.judgement
    news = AlertItem(
        verdict=night.verdict,
        unit=night.measurement.unit,
        first_bad=judgement.first_bad if judgement else None,
        last_good=judgement.last_good if judgement else None,
    )
    said = message(run, drill.suite.owner, [news])
    return Message(
        f"Drill: {said.title}",
        f"This is a drill: from night {drill.first_slow} on each step slept "
        f"{1000 * night.sleep_s:.3g} ms, so that {drill.size:.1%} of the throughput was lost. "
        f"Nothing is wrong.\n\n{said.body}",
    )


def points_of(drill: Drill, nights: Sequence[Night]) -> list[HistoryPoint]:
    """The nights as a series, for its plot."""
    return [
        HistoryPoint(drill.at(night.number), night.measurement.throughput)
        for night in nights
        if night.measurement.throughput is not None
    ]


def end(spool: Spool, drill: Drill, nights: Sequence[Night]) -> Document:
    """Keep what came out, and return it: nothing of a drill stays open."""
    found = arrived(drill, nights)
    early = [n for n in nights if n.opened and n.number < drill.first_slow]
    folder = folder_of(spool, drill.drill_id)
    document = known_of(folder) | {
        "ended_at": utc_now(),
        "found": found.number if found else None,
        "delay": found.number - drill.first_slow + 1 if found else None,
        "false_alarms": [night.number for night in early],
        "nights": [
            {
                "night": night.number,
                "date": f"{drill.at(night.number):%Y-%m-%d}",
                "sleep_s": night.sleep_s,
                "value": night.measurement.throughput,
                "verdict": str(night.verdict.kind),
                "sentence": night.verdict.sentence,
            }
            for night in nights
        ],
    }
    folder.save_run(document)
    return document
