"""From loaded medians to verdicts and alerts. Everything may be done again.

Verdicts are for every run; only nightly runs open and close alerts, and tell of them (`telling`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nightbench.alerts import AlertChanges, Delivery, Links, LiveAlert, alerts_for, drifts
from nightbench.alerts.explain import explain_alerts
from nightbench.alerts.noise import quarantine
from nightbench.alerts.notify import Notifier, notify
from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseStatus,
    CheckResult,
    HistoryPoint,
    MeasuredCase,
    Measurement,
    PlannedCase,
    Run,
    RunKind,
    Severity,
    Verdict,
    VerdictKind,
)
from nightbench.core.run_plan import RunPlan
from nightbench.detection import ChangeDetector, Judgement, judge_cases
from nightbench.night.case_controls import controls_of_cases
from nightbench.night.detector_grade import DetectorGrades, grade_detector
from nightbench.night.suspected_regressions import confirm_suspects
from nightbench.spool import Spool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connect

_CHANGES = (VerdictKind.REGRESSED, VerdictKind.IMPROVED)


@dataclass(frozen=True)
class JudgeResult:
    """What judging a run did."""

    verdicts: tuple[Verdict, ...]
    opened: tuple[Verdict, ...] = ()
    resolved: tuple[str, ...] = ()
    """case_ids whose alerts ended."""
    deliveries: tuple[Delivery, ...] = ()
    graded: DetectorGrades | None = None
    """How the detector does on shadow series; None where the run is no night."""


@dataclass(frozen=True)
class _Judged:
    """A run's verdicts, and what they rest on."""

    cases: Sequence[tuple[Verdict, Judgement | None]]
    """In the order of the plan."""
    histories: Mapping[str, Sequence[HistoryPoint]]
    """Good nights before this run by case_id, oldest first."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict, _ in self.cases)


def judge_run(
    spool: Spool,
    run_id: str,
    connect: Connect,
    *,
    resolve: Callable[[str], str] | None = None,
    base_url: str | None = None,
    confirms: bool = False,
) -> JudgeResult:
    """Judge a loaded run, store its verdicts, and tell who must know.

    Args:
        spool: holds the run's plan with its policy and channels.
        run_id: the run.
        connect: opens a connection to the warehouse.
        resolve: Airflow Connection id -> Apprise URL, for channels that are named so.
        base_url: of Airflow's API server, for the links in a message.
        confirms: somebody measures suspects again: a night's message waits for them.

    Raises:
        WarehouseUnavailable: the warehouse is away.
        UserError: the run was never loaded, or no channel took the message.
    """
    plan = read_plan(spool.run(run_id))
    connection = connect()
    try:
        warehouse = Warehouse(connection)
        judged = _judge(warehouse, plan)
        verdicts = judged.verdicts
        warehouse.series.store_verdicts(verdicts)
        if plan.run.run_kind is not RunKind.NIGHTLY:
            return JudgeResult(verdicts)
        # Two who judge at once would both find an alert untold and both tell of it.
        warehouse.alerts.lock(plan.run.cluster)
        # A night that is judged late, or again, says nothing of alerts that later nights moved.
        later = warehouse.series.judged_since(
            plan.run.cluster, plan.run.started_at, judged.histories
        )
        noisy = quarantine(warehouse, plan, judged.histories)
        drifts.follow(warehouse, plan, judged.cases, judged.histories, later, noisy)
        changes = alerts_for(
            [verdict for verdict in verdicts if verdict.case_id not in later],
            [LiveAlert.from_row(row) for row in warehouse.alerts.standing(plan.run.cluster)],
            plan.run.started_at,
            plan.policy.min_change,
            noisy,
        )
        opened, resolved = _store(warehouse, changes, run_id)
        explain_alerts(connection, plan)
        if confirms:
            confirm_suspects(connection, plan)
        voice = Notifier(resolve, Links(base_url) if base_url else None)
        deliveries = notify(warehouse, plan, voice)
    finally:
        connection.close()
    # On a connection of its own: nobody waits for the alerts while the shadows are judged.
    graded = grade_detector(connect, plan)
    return JudgeResult(verdicts, opened, tuple(resolved), deliveries, graded)


def _store(
    warehouse: Warehouse, changes: AlertChanges, run_id: str
) -> tuple[tuple[Verdict, ...], list[str]]:
    """Store what a run does to the alerts; the verdicts that are news, and the cases that ended."""
    resolved = [
        alert.case_id
        for alert in changes.to_resolve
        if warehouse.alerts.end(
            alert.alert_id, run_id, "recovered on two nights, or changed its kind"
        )
        and not alert.is_dismissed
    ]
    reopened = [v for alert, v in changes.to_reopen if warehouse.alerts.reopen(alert.alert_id, v)]
    opened = [verdict for verdict in changes.to_open if warehouse.alerts.open(verdict)]
    for verdict in changes.to_continue:
        warehouse.alerts.open(verdict)
    for alert, suspect in changes.to_watch:
        warehouse.alerts.watch(alert.alert_id, suspect, run_id)
    return (*reopened, *opened), resolved


def _judge(warehouse: Warehouse, plan: RunPlan) -> _Judged:
    run = plan.run
    planned = warehouse.runs.planned_cases(run.run_id)
    if not planned:
        raise UserError(
            f"run {run.run_id} is not in the warehouse; expected a run that was loaded. "
            "Load it first (the task ingest, or nightbench results after a direct run)."
        )
    came_back = warehouse.runs.measured(run.run_id)
    # What the night had no room for gets no verdict: it is neither failed nor missing.
    left_out = {each.case_id for each in came_back if each.status is CaseStatus.LEFT_OUT}
    left_out |= {case.case_id for case in planned if case.left_out is not None}
    by_id = {case.case_id: case for case in planned if case.case_id not in left_out}
    measured = {
        each.case_id: _measurement(run, by_id[each.case_id], each)
        for each in came_back
        if each.status is not None and each.case_id in by_id
    }
    histories = {
        case_id: warehouse.series.history(case_id, run.cluster, before=run.started_at)
        for case_id in by_id
    }
    cases = judge_cases(run, list(by_id), measured, histories, plan.policy)
    # Judged once more with the controls of their nodes, which say more of a change and move none.
    changed = [verdict.case_id for verdict, _ in cases if verdict.kind in _CHANGES]
    with_controls = {
        case_id: judge_cases(
            run, [case_id], measured, histories, plan.policy, ChangeDetector(controls=controls)
        )[0]
        for case_id, controls in controls_of_cases(warehouse.causes, run, changed).items()
    }
    return _Judged([with_controls.get(case[0].case_id, case) for case in cases], histories)


def _measurement(run: Run, planned: PlannedCase, measured: MeasuredCase) -> Measurement:
    """A measurement as far as the warehouse says and a verdict needs."""
    point = measured.point
    return Measurement(
        run_id=run.run_id,
        case=planned.case,
        cluster=run.cluster,
        build=planned.build,
        unit=planned.unit or "",
        repeats=(),
        n=(point.n or 0) if point else 0,
        throughput=point.value if point else None,
        spread=point.spread if point else None,
        framework_version=point.framework_version if point else None,
        definition_digest=(point.definition_digest or "") if point else "",
        fingerprint_id=(point.fingerprint_id or "") if point else "",
        status=measured.status or CaseStatus.FAILED,
        reasons=measured.reasons,
        checks=tuple(
            CheckResult(
                "measurement", None, r.subject or "", Severity.FAIL, False, r.observed, r.expected
            )
            for r in measured.quarantine_reasons
        ),
    )
