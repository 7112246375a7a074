"""Says of a loaded run's cases whether they train as before; follows the alerts about it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from nightbench.alerts import LiveAlert
from nightbench.core.model import Case, HistoryPoint, Run, TrainingKind, Verdict, VerdictKind
from nightbench.core.run_plan import RunPlan
from nightbench.detection.paired_training import traits_of
from nightbench.detection.training import (
    PROVED_NIGHTS,
    TrainingVerdict,
    judge_training,
    newest_are_enough,
)
from nightbench.detection.training_lines import lines_that_differ
from nightbench.detection.training_night import TrainingNight
from nightbench.warehouse import Warehouse

NIGHTS_COMPARED = 30
"""Nights before the run whose losses are compared, unless fewer are enough."""


def judge_trainings(warehouse: Warehouse, plan: RunPlan) -> dict[str, TrainingVerdict]:
    """Compare the losses of a run's good cases with earlier nights and with other lines.

    Returns:
        By case_id, without cases that have no result; empty if the suite compares no losses.
    """
    if plan.policy.training == "off":
        return {}
    cases = {case.planned.case_id: case for case in plan.cases}
    traits = {case_id: traits_of(case, plan.protocol) for case_id, case in cases.items()}
    tonight, past, of_build = _nights(warehouse, plan.run, cases, PROVED_NIGHTS)
    tonight = {
        case_id: night
        for case_id, night in tonight.items()
        if night.losses or not cases[case_id].from_log
    }
    found: dict[str, TrainingVerdict] = {}
    for case_id, night in tonight.items():
        nights = past[case_id]
        if newest_are_enough(night, nights, traits[case_id], case_id in of_build):
            found[case_id] = judge_training(night, nights, traits[case_id])
    others = [
        case_id
        for case_id in tonight
        if case_id not in found or found[case_id].kind is not TrainingKind.SAME
    ]
    if others:
        _, past, _ = _nights(warehouse, plan.run, others, NIGHTS_COMPARED)
    for case_id in others:
        found[case_id] = judge_training(tonight[case_id], past[case_id], traits[case_id])
    between_lines = lines_that_differ(
        (case.planned.case, tonight[case_id].losses, traits[case_id])
        for case_id, case in cases.items()
        if case_id in tonight and "batch" not in tonight[case_id].losses  # each line finds its own
    )
    for case_id, verdict in between_lines.items():
        own = found.get(case_id)
        # What the nights say decides; what other lines say is added. Nights of which all changed
        # name no difference: only other lines do.
        if own and own.kind is not TrainingKind.NOT_COMPARABLE:
            has_no_difference = own.kind is TrainingKind.CHANGED and not own.difference
            if not (has_no_difference and verdict.difference):
                verdict = replace(own, sentence=f"{own.sentence} {verdict.sentence}")
        found[case_id] = verdict
    return found


def _nights(
    warehouse: Warehouse, run: Run, case_ids: Iterable[str], max_nights: int
) -> tuple[dict[str, TrainingNight], Mapping[str, list[TrainingNight]], set[str]]:
    """Read the losses of some cases tonight and in so many nights before, by case_id.

    And which cases have tonight's build also in one of the older of `NIGHTS_COMPARED` nights.
    """
    tonight, of_build = dict[str, TrainingNight](), set[str]()
    past = defaultdict[str, list[TrainingNight]](list)
    for case_id, place, night in warehouse.series.training_nights(
        list(case_ids), run, max_nights, NIGHTS_COMPARED - max_nights, PROVED_NIGHTS
    ):
        if place == "tonight":
            tonight[case_id] = night
        elif place == "older":
            of_build.add(case_id)
        else:
            past[case_id].append(night)
    return tonight, past, of_build


def without_changed(
    warehouse: Warehouse,
    cluster: str,
    histories: Mapping[str, list[HistoryPoint]],
    trainings: Mapping[str, TrainingVerdict],
) -> dict[str, list[HistoryPoint]]:
    """Leave out nights whose training changed, for cases that train as before tonight.

    A build that trained otherwise has another speed. If its nights were a baseline, the night
    that repairs it would be a regression. Nights that a user has accepted stay.
    """
    both = trainings.keys() & histories.keys()
    same = [case_id for case_id in both if trainings[case_id].kind is TrainingKind.SAME]
    changed = defaultdict[str, set[datetime]](set)
    for row in warehouse.series.read("changed_nights", case_ids=same, cluster=cluster):
        changed[row["case_id"]].add(row["at"])
    found = dict(histories)
    for case_id, nights in changed.items():
        found[case_id] = [point for point in found[case_id] if point.at not in nights]
    return found


def with_training(verdict: Verdict, training: TrainingVerdict | None) -> Verdict:
    """Return a verdict that says whether the case trained as before.

    An improvement of a case that trains otherwise says so first.
    """
    if training is None:
        return verdict
    sentence = verdict.sentence
    if training.kind is TrainingKind.CHANGED and verdict.kind is VerdictKind.IMPROVED:
        sentence = f"{training.sentence} Speed is not comparable with earlier nights. {sentence}"
    return replace(
        verdict,
        sentence=sentence,
        training=training.kind,
        training_sentence=training.sentence,
    )


def follow_training(
    warehouse: Warehouse,
    plan: RunPlan,
    verdicts: Sequence[Verdict],
    trainings: Mapping[str, TrainingVerdict],
) -> list[Verdict]:
    """Open, continue and end the alerts about training; return the verdicts that opened one.

    A case that trains as before ends its alert the same night: losses hardly vary. A suite that
    no longer compares losses ends its own alerts.
    """
    rows = warehouse.alerts.read("continuing_alerts", cluster=plan.run.cluster)
    live = {row["case_id"]: LiveAlert.from_row(row) for row in rows if row["metric"] == "training"}
    cases = {each.planned.case_id: each.planned.case for each in plan.cases}
    opened = []
    for verdict in verdicts:
        training, alert = trainings.get(verdict.case_id), live.get(verdict.case_id)
        why = ""
        if training is not None and training.kind is TrainingKind.SAME:
            why = training.sentence
        elif alert and alert.suite == plan.run.suite and plan.policy.training == "off":
            why = "The suite does not compare losses: `policy.training` is off."
        if alert and why:
            warehouse.alerts.end(alert.alert_id, plan.run.run_id, why)
        if training is None or not training.difference:
            continue
        is_live = alert is not None and not alert.is_dismissed
        may_open = plan.policy.training == "alert" and (training.is_proved or alert is not None)
        of_alert = _of_alert(verdict, training, cases[verdict.case_id])
        if (is_live or may_open) and warehouse.alerts.open(of_alert):
            opened.append(of_alert)
    return opened


def _of_alert(verdict: Verdict, training: TrainingVerdict, case: Case) -> Verdict:
    speed = "" if training.speed is None else f"; throughput {training.speed:+.1%}"
    what = f"{case.workload} on {case.framework}, {training.difference}{speed}."
    _, _, evidence = training.sentence.partition(". ")
    return Verdict(
        verdict.case_id,
        verdict.cluster,
        verdict.run_id,
        VerdictKind.TRAINING_CHANGED,
        f"Training changed: {what} {evidence} Find the change, or dismiss the alert as intended.",
        training.value,
        training.baseline,
        training.change,
        metric="training",
    )
