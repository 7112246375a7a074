"""From loaded medians to verdicts, alerts and their messages. Everything may be done again.

Verdicts are for every run; only nightly runs open and close alerts. An alert is stored before its
message is sent and remembers that it was: a message that no channel took is sent by the next try,
one that was taken is never sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nightbench.alerts import AlertChanges, Delivery, LiveAlert, News, alerts_for, message, send
from nightbench.detection import Judgement, judge_cases
from nightbench.errors import UserError
from nightbench.model import (
    CaseStatus,
    CheckResult,
    Measurement,
    Run,
    RunKind,
    Severity,
    Verdict,
)
from nightbench.pipeline.ingest import Connect
from nightbench.pipeline.plans import RunPlan, read_plan
from nightbench.spool import Spool
from nightbench.warehouse import Loader, MeasuredCase, PlannedCase, Reader


@dataclass(frozen=True)
class JudgeResult:
    """What judging a run did."""

    verdicts: tuple[Verdict, ...]
    opened: tuple[Verdict, ...] = ()
    resolved: tuple[str, ...] = ()
    """case_ids whose alerts ended."""
    deliveries: tuple[Delivery, ...] = ()


def judge_run(
    spool: Spool,
    run_id: str,
    connect: Connect,
    *,
    resolve: Callable[[str], str] | None = None,
    link: str | None = None,
) -> JudgeResult:
    """Judge a loaded run, store its verdicts, and tell who must know.

    Args:
        spool: holds the run's plan with its policy and channels.
        run_id: the run.
        connect: opens a connection to the warehouse.
        resolve: Airflow Connection id -> Apprise URL, for channels that are named so.
        link: where the run's results are, for the message.

    Raises:
        WarehouseUnavailable: the warehouse is away.
        UserError: the run was never loaded, or no channel took the message.
    """
    plan = read_plan(spool.run(run_id))
    connection = connect()
    try:
        reader, loader = Reader(connection), Loader(connection)
        judged = _verdicts(reader, plan)
        verdicts = tuple(verdict for verdict, _ in judged)
        loader.store_verdicts(verdicts)
        if plan.run.run_kind is not RunKind.NIGHTLY:
            return JudgeResult(verdicts)
        # Two who judge at once would both find an alert untold and both tell of it.
        loader.lock_alerts(plan.run.cluster)
        changes = alerts_for(
            verdicts,
            [LiveAlert.from_row(row) for row in reader.standing_alerts(plan.run.cluster)],
            plan.run.started_at,
            plan.policy.min_change,
        )
        opened, resolved = _store(loader, changes, run_id)
        untold = set(reader.untold_alerts(run_id))
        news = _news(plan, judged, untold)
        deliveries = _tell(plan, news, resolved, resolve, link)
        loader.mark_told(run_id)
    finally:
        connection.close()
    return JudgeResult(verdicts, opened, tuple(resolved), deliveries)


def _store(
    loader: Loader, changes: AlertChanges, run_id: str
) -> tuple[tuple[Verdict, ...], list[str]]:
    """Store what a run does to the alerts; the verdicts that are news, and the cases that ended."""
    resolved = [
        alert.case_id
        for alert in changes.to_resolve
        if loader.end_alert(alert.alert_id, run_id, "recovered on two nights, or changed its kind")
        and not alert.is_dismissed
    ]
    reopened = [v for alert, v in changes.to_reopen if loader.reopen_alert(alert.alert_id, v)]
    opened = [verdict for verdict in changes.to_open if loader.open_alert(verdict)]
    for verdict in changes.to_continue:
        loader.open_alert(verdict)
    for alert, suspect in changes.to_watch:
        loader.watch_alert(alert.alert_id, suspect, run_id)
    return (*reopened, *opened), resolved


def _verdicts(reader: Reader, plan: RunPlan) -> list[tuple[Verdict, Judgement | None]]:
    run = plan.run
    planned = reader.planned_cases(run.run_id)
    if not planned:
        raise UserError(
            f"run {run.run_id} is not in the warehouse; expected a run that was loaded. "
            "Load it first (the task ingest, or nightbench results after a direct run)."
        )
    came_back = reader.measured(run.run_id)
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
        case_id: reader.series_history(case_id, run.cluster, before=run.started_at)
        for case_id in by_id
    }
    return judge_cases(run, list(by_id), measured, histories, plan.policy)


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
        reason=measured.reason,
        checks=tuple(_refusals(measured.quarantine_reasons)) if measured.quarantined else (),
    )


def _refusals(reasons: Iterable[str]) -> Iterable[CheckResult]:
    """The failed checks, as the warehouse's quarantine words them: `check: seen, expected ...`."""
    for reason in reasons:
        check, _, rest = reason.partition(": ")
        observed, _, expected = rest.rpartition(", expected ")
        yield CheckResult("measurement", None, check, Severity.FAIL, False, observed, expected)


def _news(
    plan: RunPlan, judged: Sequence[tuple[Verdict, Judgement | None]], untold: set[str]
) -> list[News]:
    units = {case.planned.case_id: case.planned.unit or "" for case in plan.cases}
    return [
        News(
            verdict=verdict,
            unit=units.get(verdict.case_id, ""),
            since=judgement.since if judgement else None,
            last_good=judgement.last_good if judgement else None,
        )
        for verdict, judgement in judged
        if verdict.case_id in untold
    ]


def _tell(
    plan: RunPlan,
    news: Sequence[News],
    resolved: Sequence[str],
    resolve: Callable[[str], str] | None,
    link: str | None,
) -> tuple[Delivery, ...]:
    """Send one message for all that is new.

    Raises:
        UserError: there are channels, and none of them took the message.
    """
    if not plan.channels or not (news or resolved):
        return ()
    said = message(plan.run, plan.owner, news, resolved, link)
    deliveries = tuple(send(plan.channels, said.title, said.body, resolve))
    if not any(delivery.sent for delivery in deliveries):
        reasons = "; ".join(f"{d.channel}: {d.error}" for d in deliveries)
        raise UserError(
            f'no channel of suite {plan.run.suite} took the message "{said.title}": {reasons}. '
            "The alerts are stored; the message is sent when the run is judged again."
        )
    return deliveries
