"""Measures the launches of a comparison through the real gang, and resumes where one ended.

All experiments are made of comparisons, and each uses `run_comparison`: the request is stored
first, and every launch is stored before the next one begins. The result is computed from the stored
launches alone. Another call continues after the last launch that has ended, and resumes one that
still runs.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nightbench.checks import CheckContext, check_repeats
from nightbench.core.errors import WarehouseUnavailable
from nightbench.core.losses import LaunchLosses, loss_curve
from nightbench.core.model import (
    CaseStatus,
    Catalog,
    Cluster,
    JobSpec,
    Reason,
    ReasonCode,
    Suite,
    reasons_from_json,
)
from nightbench.core.model.experiments import Experiment
from nightbench.core.run_plan import CasePlan
from nightbench.core.summarize import repeat_record, summarize_repeat
from nightbench.experiments import rounds
from nightbench.experiments.comparison import (
    ComparedCase,
    ComparisonContext,
    ComparisonPlan,
    ended_launches,
    make_result,
    save_launch,
    save_result,
    saved_result,
    store_comparison,
)
from nightbench.experiments.experiment_spool import (
    Document,
    MeasurementStopped,
    check_cancel,
    is_cancelled,
    withdraw_cancel,
)
from nightbench.experiments.record import ExperimentRecord
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.experiments.rounds import Arm, Launch
from nightbench.gang import (
    EnvironmentUnavailable,
    NodeError,
    PodTarget,
    Shipment,
    Target,
    prepare,
    run_gang,
)
from nightbench.gang.case_runner import clean_up
from nightbench.gang.pods import delete_pods_of
from nightbench.night import cluster_preflight, run_preflight
from nightbench.night.code_snapshot import shipment_of_now
from nightbench.night.planning import case_histories, open_now
from nightbench.nodes import NodesOut, NodeState
from nightbench.spool import CaseOutcome, CaseStore, RepeatOutcome, RunSpool, Spool
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect


@dataclass(frozen=True, kw_only=True)
class ExperimentContext(ComparisonContext):
    """Where an experiment is measured and by what; every process that resumes one makes its own."""

    targets: Mapping[str, Target]
    """Node -> how it is reached."""
    shipment: Shipment
    """Files that the nodes need."""
    node_states: Mapping[str, NodeState] = dataclasses.field(default_factory=dict)
    """Node -> whether it is in quarantine; empty if the warehouse is away."""


def experiment_context(
    suite: Suite,
    cluster: Cluster,
    catalog: Catalog,
    targets: Mapping[str, Target],
    connect: Connect,
    *,
    outside_hours: bool = False,
    until: datetime | None = None,
) -> ExperimentContext:
    """Return the context of an experiment that is measured from now on.

    The cluster's hours limit it unless it is measured `outside_hours`, and so does `until`. If the
    warehouse is away, no quarantine and no duration is known.

    Raises:
        UserError: the cluster's hours do not hold now.
    """
    shipment = shipment_of_now(catalog.code_digest, cluster.environments.wheelhouse)
    ends = (until, None if outside_hours else open_now(cluster, datetime.now(UTC)))
    deadline = min((end for end in ends if end is not None), default=None)
    states: Mapping[str, NodeState] = {}
    try:
        with opened(connect) as warehouse:
            states = warehouse.nodes.states(cluster.name)
    except WarehouseUnavailable:
        pass  # Quarantines are unknown then; the preflight still finds faults.
    past = case_histories(cluster.name, connect) if deadline is not None else {}
    return ExperimentContext(
        suite,
        cluster,
        catalog,
        deadline,
        past,
        targets=targets,
        shipment=shipment,
        node_states=states,
    )


@dataclass(frozen=True)
class Turn:
    """One process that measures an experiment until it ends, or waits in the queue again."""

    record: ExperimentRecord
    spool: Spool
    context: ExperimentContext
    observer: ComparisonReporter

    @property
    def experiment(self) -> Experiment:
        """The experiment."""
        return self.record.experiment

    @property
    def folder(self) -> RunSpool:
        """Its files."""
        return self.spool.comparison(self.experiment.name)


async def unfit_nodes(turn: Turn, line: str) -> NodesOut:
    """Look at the nodes; report and return those that have a fault or are in quarantine."""
    context = turn.context
    found = await cluster_preflight.examine(
        context.cluster,
        context.targets,
        context.shipment,
        [context.catalog.frameworks[line]],
        sweep=True,
    )
    left_out = run_preflight.nodes_out_tonight(found, context.node_states)
    turn.observer.left_out(left_out)
    return left_out


async def run_comparison(
    plan: ComparisonPlan,
    request: Mapping[str, Any],
    requested_by: str,
    turn: Turn,
    after_launch: Callable[[], str | None],
) -> Document:
    """Measure what is missing of a comparison, and return the document of its result.json.

    If time ran out, or it was ended from elsewhere, it is not `complete`. `request` is what the
    caller needs to make the same plan again; `after_launch` is called once a launch is stored, and
    returns why no other one may begin, or None: as `ExperimentRecord.note`.

    Raises:
        EnvironmentUnavailable: a node cannot have one of the builds.
        NodeError: a node cannot be reached before the first launch.
        UserError: it was begun with other cases, nodes, builds or code.
        asyncio.CancelledError: after the gang has been ended on the nodes.
    """
    spool, observer = turn.spool, turn.observer
    folder = spool.comparison(plan.comparison_id)
    known = saved_result(folder)
    if known is not None and known["complete"]:
        return known
    store_comparison(plan, spool, request, requested_by)
    withdraw_cancel(folder)
    (folder.folder / "result.json").unlink(missing_ok=True)  # of a comparison that is resumed
    measurement = _Measurement(plan, folder, turn.context, observer, after_launch)
    observer.comparison_begins(plan, folder)
    stopped = None
    with folder.controlled():
        try:
            await measurement.run()
        except MeasurementStopped as error:
            stopped = str(error)
        document = make_result(plan, folder, stopped)
        save_result(folder, document)
    return document


@dataclass(frozen=True)
class _Measurement:
    plan: ComparisonPlan
    folder: RunSpool
    context: ExperimentContext
    observer: ComparisonReporter
    after_launch: Callable[[], str | None]

    async def run(self) -> None:
        """Measure all launches that are missing, after the environments of both builds are made.

        Pods exist only while a launch is measured, so it makes its own.
        """
        in_pods = any(isinstance(each, PodTarget) for each in self.context.targets.values())
        for case in () if in_pods else self.plan.cases:
            ended = ended_launches(self.folder, case.case_id)
            following = rounds.progress(case.order, ended).next
            if following is not None:
                arm = following[1]
                # With the numbers of the next launches, so that no job file in use changes.
                for number, each in enumerate((arm, arm.other), start=len(ended)):
                    await self._prepare(case.launch(each, number))
        stop: str | None = None
        for case in self.plan.cases:
            while True:
                ended = ended_launches(self.folder, case.case_id)
                following = rounds.progress(case.order, ended).next
                if following is None:
                    break
                check_cancel(self.folder)
                if stop is not None:
                    raise MeasurementStopped(f"{self.plan.comparison_id}: {stop}")
                number, (of_round, arm) = len(ended), following
                self.observer.launch_begins(case, number, of_round, arm)
                launch = await self._launch(case, number, of_round, arm)
                stop = self.after_launch()
                self.observer.launch_ended(case, number, launch)

    async def _prepare(self, job: JobSpec) -> None:
        targets, shipment = self.context.targets, self.context.shipment
        try:
            await prepare(job, targets, shipment, self.observer.gang_event)
        except NodeError:
            # `cancel` also ends the preparation of a node; this is no fault of the node.
            check_cancel(self.folder)
            raise

    async def _launch(self, case: ComparedCase, number: int, of_round: int, arm: Arm) -> Launch:
        job = launch_job(self.folder, case, arm, number)
        store = self.folder.case(case.case_id, number)
        resumed = store.job() is not None
        try:
            await self._prepare(job)
            await asyncio.to_thread(store.save_job, job.to_json())
            context, event = self.context, self.observer.gang_event
            outcome = await run_gang(job, context.targets, store, event, shipment=context.shipment)
            launch = await asyncio.to_thread(self._judge, case, job, store, of_round, arm, outcome)
            if launch.status == "interrupted" and not resumed:
                save_launch(store, launch)
                raise MeasurementStopped(f"{job.job_id}: {launch.why}")
        except EnvironmentUnavailable:
            raise
        except NodeError as error:
            # `cancel` also ends the start of an agent; this is no fault of the node.
            status = "interrupted" if is_cancelled(self.folder) else "failed"
            await delete_pods_of(job, self.context.targets, self.observer.gang_event)
            launch = Launch(of_round, arm, status, None, (error.reason,))
        except asyncio.CancelledError:
            await clean_up(job, self.context.targets, self.observer.gang_event)
            reason = Reason(ReasonCode.CANCELLED, observed="interrupted by the user")
            save_launch(store, Launch(of_round, arm, "interrupted", None, (reason,)))
            raise
        if launch.status == "failed" and resumed:
            # The process that began it has died, and its gang ended without it.
            launch = dataclasses.replace(launch, status="interrupted")
        await asyncio.to_thread(save_launch, store, launch)
        return launch

    def _judge(
        self,
        case: ComparedCase,
        job: JobSpec,
        store: CaseStore,
        of_round: int,
        arm: Arm,
        outcome: CaseOutcome,
    ) -> Launch:
        """Return the result of a launch, after the checks that every repeat has to pass."""
        if outcome.status in (CaseStatus.CANCELLED, CaseStatus.LEFT_OUT):
            return Launch(of_round, arm, "interrupted", None, outcome.reasons)
        repeat = store.repeat(1)
        if repeat is None:
            return Launch(of_round, arm, "failed", None, outcome.reasons)
        if repeat["status"] != "ok":
            status = "disturbed" if repeat["status"] == "disturbed" else "failed"
            reasons = reasons_from_json(repeat["reasons"]) or outcome.reasons
            return Launch(of_round, arm, status, None, reasons)
        record = repeat_record({**repeat, "repeat": 1}, store.results(1))
        summary = summarize_repeat(record, case.case)
        planned = CasePlan.of(job, case.workload)
        checks = CheckContext.of(planned, job.protocol, self.plan.cluster)
        refused = [c.reason for c in check_repeats(checks, [record], [summary]) if c.quarantines]
        if summary.problem is not None and not refused:
            refused = [summary.problem]
        if refused or summary.throughput is None:
            return Launch(of_round, arm, "failed", None, tuple(refused))
        losses = None
        if summary.losses is not None:
            figures = {name: (value, value) for name, value in summary.losses.items()}
            trainers = [rank for rank in record.ranks if rank.measured]
            losses = LaunchLosses(figures, loss_curve(trainers))
        return Launch(of_round, arm, "ok", summary.throughput, losses=losses)


def launch_job(folder: RunSpool, case: ComparedCase, arm: Arm, number: int) -> JobSpec:
    """Return the job of a launch, expected to take as long as the longest launch before it."""
    job = case.launch(arm, number)
    records = [folder.case(case.case_id, before).repeat(1) for before in range(number)]
    took = [
        seconds
        for record in records
        if record and (seconds := RepeatOutcome.from_record(1, record, None).seconds) is not None
    ]
    return dataclasses.replace(job, expected_repeat_s=max(took, default=job.expected_repeat_s))
