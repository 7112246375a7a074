"""`nightbench run --direct`: run over SSH from this process, and load if a warehouse answers."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Mapping
from datetime import UTC, datetime

from nightbench.cli import common
from nightbench.cli.common import FAILED, INTERRUPTED, say, warn
from nightbench.cli.results import is_good, show_run
from nightbench.cli.selection import Chosen
from nightbench.core.budget import clock
from nightbench.core.errors import UserError, WarehouseUnavailable
from nightbench.core.model import RunKind
from nightbench.core.run_plan import RunPlan, make_plan
from nightbench.core.sentences import sentences
from nightbench.experiments.engine import experiment_context
from nightbench.experiments.reference_measuring import measure_references
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.gang import Target, case_runner
from nightbench.night import cluster_preflight, ingest, planning, run_preflight
from nightbench.night.code_snapshot import shipment_of_now
from nightbench.spool import Spool, plans


def measure_directly(chosen: Chosen) -> int:
    """Plan, measure, load and judge a run; return the exit code.

    Raises: UserError: nothing was launched, for instance because a Connection is missing.
    """
    plan = _plan_now(chosen, datetime.now(UTC))
    interrupted = _measure_plan(chosen, plan)
    load_and_judge(common.spool(), plan.run.run_id)
    rows = show_run(plan.run.run_id, await_verdicts=False)
    if interrupted:
        return INTERRUPTED
    return 0 if all(map(is_good, rows)) else FAILED


def _measure_plan(chosen: Chosen, plan: RunPlan) -> bool:
    """Measure a plan over SSH from this process; return whether the user interrupted it."""
    common.home().make()
    cluster, targets = chosen.cluster, common.targets(chosen.cluster)
    folder = plans.store_plan(plan, common.spool())
    run_id = plan.run.run_id
    say(f"run {run_id}: {len(plan.jobs)} cases on {cluster.name}, without a scheduler")
    interrupted = False
    shipment = shipment_of_now(plan.run.code_digest, cluster.environments.wheelhouse)
    try:
        wanted = {job.build.line for job in plan.jobs}
        lines = [line for name, line in chosen.catalog.frameworks.items() if name in wanted]
        # Orphans are ended first.
        health = asyncio.run(
            cluster_preflight.examine(cluster, targets, shipment, lines, sweep=True)
        )
        states = run_preflight.record(run_id, health, cluster.health, common.open_warehouse)
        placed, out = run_preflight.place_on_healthy(plan.jobs, folder, cluster, health, states)
        for why in out.values():
            warn(sentences(why))
        with common.live_view(folder) as view:
            case_runner.measure_cases(
                placed.jobs,
                folder,
                targets,
                shipment,
                on_event=view.hear,
                refresh=view.refresh,
                at_once=cluster.parallel_cases,
            )
        if plan.pairs:
            _measure_with_references(chosen, plan, targets)
    except KeyboardInterrupt:
        interrupted = True
    plans.mark_ended(folder)
    if interrupted:
        say(f"{run_id} was cancelled; its processes on the nodes have been ended")
    return interrupted


def _measure_with_references(chosen: Chosen, plan: RunPlan, targets: Mapping[str, Target]) -> None:
    """Measure cases next to their reference builds; report and leave out those that cannot be."""
    try:
        spool = common.spool()
        context = experiment_context(
            chosen.suite,
            chosen.cluster,
            chosen.catalog,
            targets,
            common.open_warehouse,
            outside_hours=True,  # The plan has checked the hours; `until` ends the measurement.
            until=plan.jobs[0].deadline if plan.jobs else None,
        )
        reporter = ComparisonReporter(say)
        work = measure_references(plan, spool, context, reporter, common.open_warehouse)
        with spool.run(plan.run.run_id).controlled():
            found = asyncio.run(case_runner.run_interruptible(work, reporter.refresh))
    except UserError as error:
        warn(f"no case was compared with a reference build: {error}")
        return
    for pair in found:
        if pair.why:
            warn(f"{pair.case_id} compared with {pair.reference.build_id}: {pair.why}")


def _plan_now(chosen: Chosen, now: datetime) -> RunPlan:
    """Plan a run that begins now, within the cluster's hours, or the suite's with --night."""
    past = common.known_case_histories(chosen.cluster.name)
    night = deadline = None
    if chosen.night:
        night = planning.plan_night(chosen.suite, chosen.cluster, chosen.catalog, past, now)
        if night.window.start > now:
            raise UserError(
                f"--night: the next night begins at {clock(night.window.start)}, and --direct "
                "does not wait; start the night then, or omit --night or --direct"
            )
    elif not chosen.outside_hours:
        deadline = planning.open_now(chosen.cluster, now)
    return make_plan(
        chosen.suite,
        chosen.cluster,
        chosen.catalog,
        run_kind=RunKind.ON_DEMAND,
        requested_by=getpass.getuser(),
        started_at=now,
        night=night,
        deadline=deadline,
        past=past,
    )


def load_and_judge(spool: Spool, run_id: str) -> None:
    """Load a run into the warehouse and judge the run; without one, it stays in the spool."""
    try:
        say(ingest.ingest_run(spool, run_id, common.open_warehouse))
    except WarehouseUnavailable as error:
        warn(f"not loaded: the run stays in {spool.root} until the warehouse answers: {error}")
        return
    # Imported here: the detector's libraries take a second, which only loaded runs need.
    from nightbench.night import judge

    judge.judge_run(spool, run_id, common.open_warehouse)
