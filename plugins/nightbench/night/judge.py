"""Judges a loaded run: stores verdicts, changes alerts, and notifies. Idempotent.

Every run gets verdicts; only nightly runs open and close alerts and send messages.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nightbench.alerts import AlertChanges, Delivery, LiveAlert, alerts_for
from nightbench.alerts.explain import explain_alerts
from nightbench.alerts.notes import follow_drifts, quarantine
from nightbench.alerts.notify import Notifier, notify
from nightbench.alerts.shared_alerts import LiveSharedChange, SharedAlerts, share_alerts
from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseStatus,
    HistoryPoint,
    MeasuredCase,
    MetricInfo,
    PlannedCase,
    Run,
    RunKind,
    Verdict,
)
from nightbench.core.run_plan import RunPlan
from nightbench.detection import NIGHTS_READ, judge_cases, modes_of_cases
from nightbench.detection.drift import Drift
from nightbench.detection.factors import SharedChange
from nightbench.detection.training import TrainingVerdict
from nightbench.detection.verdict_sentences import with_levels
from nightbench.night.case_controls import controls_of_cases
from nightbench.night.detector_grade import grade_detector
from nightbench.night.reference_verdicts import paired_cases
from nightbench.night.shared_verdicts import (
    CHANGES,
    SharedVerdicts,
    judge_shared,
    placements,
    residual_parts,
)
from nightbench.night.suspected_regressions import confirm_suspects
from nightbench.night.training_verdicts import (
    follow_training,
    judge_trainings,
    with_training,
    without_changed,
)
from nightbench.spool import Spool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import Warehouse, opened
from nightbench.warehouse.connection import Connect


@dataclass(frozen=True)
class JudgeResult:
    """Result of judging a run."""

    verdicts: tuple[Verdict, ...]
    opened: tuple[Verdict, ...] = ()
    resolved: tuple[str, ...] = ()
    """case_ids whose alerts ended."""
    deliveries: tuple[Delivery, ...] = ()
    graded: str | None = None
    """Grades of the detector in one line; None if the run is not nightly, or none was due."""


@dataclass(frozen=True, kw_only=True)
class JudgedCases(SharedVerdicts):
    """A run's verdicts in the order of its plan, with the histories behind them."""

    drifts: Mapping[str, Drift | None]
    """Drifts of the cases that have a value, by case_id."""
    histories: Mapping[str, Sequence[HistoryPoint]]
    """Good nights before this run by case_id, oldest first."""
    trainings: Mapping[str, TrainingVerdict]


def judge_run(
    spool: Spool,
    run_id: str,
    connect: Connect,
    *,
    resolve: Callable[[str], str] | None = None,
    base_url: str | None = None,
    confirms: bool = False,
) -> JudgeResult:
    """Judge a loaded run, store its verdicts, and send notifications.

    If it `confirms`, suspected regressions are measured again, and the night's message waits.

    Raises:
        WarehouseUnavailable: the warehouse is away.
        UserError: the run was never loaded, or no channel took the message.
    """
    plan = read_plan(spool.run(run_id))
    with opened(connect) as warehouse:
        judged = judge_and_store(warehouse, plan)
        verdicts = tuple(judged.verdicts)
        if plan.run.run_kind is not RunKind.NIGHTLY:
            return JudgeResult(verdicts)
        # Two processes that judge at once would both send the same alert.
        warehouse.alerts.lock(plan.run.cluster)
        # A night that is judged late, or again, must not change alerts that later nights changed.
        later = {
            row["case_id"]
            for row in warehouse.series.read(
                "judged_since",
                cluster=plan.run.cluster,
                started_at=plan.run.started_at,
                case_ids=list(judged.histories),
            )
        }
        noisy = quarantine(warehouse, plan, judged.histories)
        follow_drifts(warehouse, plan, judged.drifts, judged.histories, later, noisy)
        cluster = plan.run.cluster
        changed = LiveSharedChange.of(warehouse.alerts.read("live_shared_changes", cluster=cluster))
        current = [verdict for verdict in verdicts if verdict.case_id not in later]
        metric = plan.policy.metric
        if metric != "throughput":
            changed = []
        # Alerts on another metric of the same series belong to another suite.
        live = [
            alert
            for row in warehouse.alerts.read("continuing_alerts", cluster=cluster)
            if (alert := LiveAlert.from_row(row)).metric == metric
        ]
        shared = share_alerts(
            current,
            judged.changes,
            changed,
            judged.own,
            noisy,
            live,
            residual_parts(changed, judged.rows),
        )
        changes = alerts_for(
            shared.verdicts,
            [alert for alert in live if alert.alert_id not in shared.joined],
            plan.run.started_at,
            plan.policy.clear_change,
            noisy,
        )
        changes.to_grow += (each for each in shared.adopted if each not in changes.to_grow)
        joined = _end_joined(warehouse, live, shared, run_id)
        new, resolved = _store(warehouse, changes, run_id)
        resolved += joined
        new = (*new, *follow_training(warehouse, plan, current, judged.trainings))
        _store_shared_changes(warehouse, plan.run, judged.changes, shared)
        explain_alerts(warehouse.causes, plan.run, plan.policy.clear_change)
        if confirms:
            confirm_suspects(warehouse, plan)
        notifier = Notifier.of(resolve, base_url)
        deliveries = notify(warehouse, plan, notifier)
    # On a connection of its own, so that the lock of the alerts is free meanwhile.
    graded = grade_detector(connect, plan)
    return JudgeResult(verdicts, new, tuple(resolved), deliveries, graded)


def _end_joined(
    warehouse: Warehouse, live: Sequence[LiveAlert], shared: SharedAlerts, run_id: str
) -> list[str]:
    """End the alerts of series that are told as part of another alert; return their case_ids."""
    joined = [alert for alert in live if alert.alert_id in shared.joined]
    for alert in joined:
        why = f"joined another alert: {shared.joined[alert.alert_id]}"
        warehouse.alerts.end(alert.alert_id, run_id, why)
    return [alert.case_id for alert in joined]


def _store(
    warehouse: Warehouse, changes: AlertChanges, run_id: str
) -> tuple[tuple[Verdict, ...], list[str]]:
    """Store the changes; return verdicts of new alerts, and case_ids of resolved ones."""
    resolved = [
        alert.case_id
        for alert in changes.to_resolve
        if warehouse.alerts.end(
            alert.alert_id, run_id, "recovered for two nights, or another kind of alert replaced it"
        )
        and not alert.is_dismissed
    ]
    reopened = [v for alert, v in changes.to_reopen if warehouse.alerts.reopen(alert.alert_id, v)]
    opened = [verdict for verdict in changes.to_open if warehouse.alerts.open(verdict)]
    for verdict in changes.to_continue:
        warehouse.alerts.open(verdict)
    for alert in changes.to_grow:
        warehouse.alerts.change("grow_alert", alert.alert_id, run_id)
    for alert, suspect in changes.to_watch:
        warehouse.alerts.change("watch_alert", alert.alert_id, suspect, run_id)
    return (*reopened, *opened), resolved


def _store_shared_changes(
    warehouse: Warehouse, run: Run, shared_changes: Sequence[SharedChange], shared: SharedAlerts
) -> None:
    alert_ids = {
        row["case_id"]: row["alert_id"]
        for row in warehouse.alerts.read("continuing_alerts", cluster=run.cluster)
        if row["metric"] == "throughput"
    }
    warehouse.alerts.store_shared_changes(
        [
            {
                "run_id": run.run_id,
                "factor": each.factor.kind.value,
                "name": each.factor.name,
                "since": each.since,
                "change": each.change,
                "low": each.low,
                "high": each.high,
                "members": dict(each.members),
                "series": each.series,
                "controls": each.controls[1],
                "controls_changed": each.controls[0],
                "sentence": each.sentence,
                "alert_id": alert_ids.get(shared.lead.get(number, "")),
            }
            for number, each in enumerate(shared_changes)
        ]
    )


def judge_and_store(warehouse: Warehouse, plan: RunPlan) -> JudgedCases:
    """Judge the cases of a loaded run, and store their verdicts: no alert changes.

    Raises:
        UserError: the run was never loaded.
    """
    run, judged_by = plan.run, plan.policy.judged
    by_id, measured = _read_cases(warehouse, run, judged_by)
    histories = warehouse.series.histories(
        list(by_id), run.cluster, before=run.started_at, max_nights=NIGHTS_READ, metric=judged_by
    )
    trainings = judge_trainings(warehouse, plan)
    histories = without_changed(warehouse, run.cluster, histories, trainings)
    # Controls measure speed, and what a night's series share is looked for in throughput alone.
    by_throughput = plan.policy.metric == "throughput"
    is_shared = run.run_kind is RunKind.NIGHTLY and by_throughput
    paired = paired_cases(warehouse, run, measured, histories, plan.policy) if by_throughput else {}
    measured |= {case_id: each.measured for case_id, each in paired.items()}
    histories |= {case_id: each.history for case_id, each in paired.items()}
    placed = placements(warehouse, run, list(measured)) if is_shared else {}
    modes = modes_of_cases(measured, histories, placed)
    histories = {**histories, **{case_id: list(each.points) for case_id, each in modes.items()}}
    verdicts, judgements = judge_cases(
        run,
        list(by_id),
        measured,
        histories,
        plan.policy,
        # A ratio to a reference build on the same node does not depend on the node.
        placed={case_id: nodes for case_id, nodes in placed.items() if case_id not in paired},
    )
    if by_throughput:
        verdicts = _with_controls(warehouse, plan, verdicts, measured, histories)
    shared = SharedVerdicts(verdicts)
    if is_shared:
        shared = judge_shared(
            warehouse,
            run,
            by_id,
            measured,
            histories,
            verdicts,
            plan.policy,
            placed,
            {case_id: each.machine for case_id, each in paired.items()},
        )
    verdicts = []
    for verdict in shared.verdicts:
        case_id = verdict.case_id
        said = with_levels(verdict, modes.get(case_id))
        if case_id in paired:
            said = paired[case_id].after(said)
        verdicts.append(with_training(said, trainings.get(case_id)))
    warehouse.series.store_verdicts(verdicts)
    drifts = {
        verdict.case_id: None if verdict.kind in CHANGES else judgements[verdict.case_id].drift
        for verdict in verdicts
        if verdict.case_id in judgements
    }
    judged = vars(shared) | {"verdicts": verdicts}
    return JudgedCases(**judged, drifts=drifts, histories=histories, trainings=trainings)


def _read_cases(
    warehouse: Warehouse, run: Run, judged_by: MetricInfo
) -> tuple[dict[str, PlannedCase], dict[str, MeasuredCase]]:
    """Return planned cases that were not left out, and their measurements, by case_id.

    Raises:
        UserError: the run was never loaded.
    """
    planned = warehouse.runs.planned_cases(run.run_id)
    if not planned:
        raise UserError(
            f"run {run.run_id} is not in the warehouse; expected a run that was loaded. Load the "
            "run first (the task ingest, or nightbench results after a direct run)."
        )
    measured_cases = warehouse.runs.measured(run.run_id, judged_by)
    # A case that did not fit into the night gets no verdict: it is neither failed nor missing.
    left_out = {each.case_id for each in measured_cases if each.status is CaseStatus.LEFT_OUT}
    left_out |= {case.case_id for case in planned if case.left_out is not None}
    by_id = {case.case_id: case for case in planned if case.case_id not in left_out}
    measured = {
        each.case_id: each
        for each in measured_cases
        if each.status is not None and each.case_id in by_id
    }
    return by_id, measured


def _with_controls(
    warehouse: Warehouse,
    plan: RunPlan,
    verdicts: Sequence[Verdict],
    measured: Mapping[str, MeasuredCase],
    histories: Mapping[str, Sequence[HistoryPoint]],
) -> list[Verdict]:
    """Judge changed cases again with the controls of their nodes, which add evidence only."""
    changed = {v.case_id: v for v in verdicts if v.kind in CHANGES}
    controls = controls_of_cases(warehouse.causes, plan.run, list(changed))
    again, _ = judge_cases(
        plan.run,
        list(controls),
        measured,
        histories,
        plan.policy,
        controls=controls,
        with_smallest=False,
    )
    # The smallest slowdown takes longer than all else, and controls do not change it.
    with_controls = {
        v.case_id: replace(v, smallest_slowdown=changed[v.case_id].smallest_slowdown) for v in again
    }
    return [with_controls.get(v.case_id, v) for v in verdicts]
