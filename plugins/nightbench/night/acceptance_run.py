"""Measures the acceptance of a cluster; the command and the DAG `nightbench_accept` both do it so.

It is resumable: what an interrupted one measured is loaded first, and only what is due is tried.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

from nightbench.core.acceptance import SUITE, ModeCell, acceptance_suite, mode_cells
from nightbench.core.capabilities import untried_because
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, Catalog, Cluster, JobSpec, RunKind, Strategy
from nightbench.core.run_plan import make_plan, new_run_id
from nightbench.core.sentences import sentences
from nightbench.gang import Target, case_runner
from nightbench.night import cluster_preflight, run_preflight
from nightbench.night.acceptance import ModeState, mode_states
from nightbench.night.bundles import build_bundle
from nightbench.night.cluster_preflight import ClusterHealth
from nightbench.night.code_snapshot import shipment_of_now
from nightbench.night.ingest import ingest_run
from nightbench.night.planning import case_histories, open_now
from nightbench.nodes import Control, FindingLevel, NodeState, product_shares, short_controls
from nightbench.nodes.device_peaks import peak_of
from nightbench.report.live_view import LiveView
from nightbench.spool import RunSpool, Spool
from nightbench.spool.plans import mark_ended, store_plan
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect

LEAST_SHARE = 0.5
"""Of a device's dense peak: a product of large matrices that reaches less is remarked on."""

ROUNDS = 9
"""Turns of a trainer and of a plain loop of its framework."""


@dataclass(frozen=True)
class AcceptanceEnd:
    """How an acceptance ended; the verdicts on modes are in the warehouse."""

    short: tuple[str, ...] = ()
    """Controls below what the cluster's file wants, or not measured."""
    interrupted: bool = False


@dataclass(frozen=True)
class AcceptanceObserver:
    """Shows an acceptance to its user."""

    say: Callable[[str], None]
    """Shows a line."""
    examined: Callable[[ClusterHealth, Mapping[str, NodeState]], None]
    """Shows how the nodes are."""
    watch: Callable[[RunSpool], LiveView]
    """Shows the cases of a run while they are measured."""


@dataclass(frozen=True)
class AcceptanceContext:
    """Where an acceptance is measured, by what and for whom."""

    cluster: Cluster
    catalog: Catalog
    targets: Mapping[str, Target]
    connect: Connect
    spool: Spool
    requested_by: str
    outside_hours: bool = False
    dag_id: str | None = None
    dag_run_id: str | None = None

    def states(
        self, cells: Sequence[ModeCell], *, again: datetime | None = None
    ) -> list[ModeState]:
        """How each mode stands by the warehouse.

        Raises:
            UserError: the warehouse is away.
        """
        with opened(self.connect) as warehouse:
            known = warehouse.acceptance.modes(self.cluster.name)
        return mode_states(cells, known, self.cluster, self.catalog, again=again)


def chosen_cells(
    lines: Collection[str],
    modes: Collection[str],
    cluster: Cluster,
    catalog: Catalog,
    *,
    untried: bool = True,
) -> list[ModeCell]:
    """The modes of some lines, or of all that are not for tests, on a cluster.

    Args:
        lines: all unless given.
        modes: only these, such as `single bf16`; all unless given.
        cluster: where.
        catalog: of the lines.
        untried: also modes that nobody has run on such devices.

    Raises:
        UserError: there is no such line, or no such mode in any of them.
    """
    have = {name: each for name, each in catalog.frameworks.items() if not each.commands}
    for name in lines:
        if name not in have:
            raise UserError(f"line: found {name}; expected one of {', '.join(sorted(have))}")
    named = lines or [name for name, each in sorted(have.items()) if not each.for_tests]
    cells = [cell for name in named for cell in mode_cells(name, cluster, catalog)]
    known = dict.fromkeys(cell.mode for cell in cells if cell.case)
    for mode in modes:
        if mode not in known:
            raise UserError(f"mode: found {mode}; expected one of {', '.join(known)}")
    return [
        cell
        for cell in cells
        if (not modes or cell.mode in modes)
        and (untried or not cell.case or untried_because(cell.case, cluster, catalog, {}) is None)
    ]


def close_interrupted(cluster: str, spool: Spool, connect: Connect) -> None:
    """Load what an interrupted acceptance of a cluster measured before its process died.

    Raises:
        UserError: another process measures one, or the warehouse is away.
    """
    for run in spool.runs():
        document = run.run() or {}
        ours = document.get("run_kind") == RunKind.ACCEPTANCE and document["cluster"] == cluster
        if not ours or run.loaded() is not None:
            continue
        if run.is_steered():
            raise UserError(
                f"cluster {cluster}: {run.run_id} is measured by another process right now. Wait "
                f"for it, or end it: nightbench cancel {run.run_id}"
            )
        mark_ended(run)
        ingest_run(spool, run.run_id, connect)


async def examine(context: AcceptanceContext, cells: Iterable[ModeCell]) -> ClusterHealth:
    """Examine and measure the nodes for the lines of some cells."""
    lines = sorted({cell.line for cell in cells})
    return await cluster_preflight.examine(
        context.cluster,
        context.targets,
        shipment_of_now(None, context.cluster.environments.wheelhouse),
        [context.catalog.frameworks[name] for name in lines],
        controls=True,
        sweep=True,
    )


def try_modes(
    cells: Sequence[ModeCell],
    context: AcceptanceContext,
    observer: AcceptanceObserver,
    *,
    again: datetime | None = None,
) -> AcceptanceEnd:
    """Examine the nodes and try the modes that are due; return how it ended.

    With `again` also what was last tried before then. A mode is tried at more than two devices once
    it holds at fewer, with its single device beside it, from which scaling is counted.

    Raises:
        UserError: nothing is measured: closed hours, or the warehouse is away.
    """
    cluster, now = context.cluster, datetime.now(UTC)
    span = None if context.outside_hours else open_now(cluster, now)
    run_id = new_run_id(SUITE, now)
    observer.say(f"cluster {cluster.name}: {len(cluster.nodes)} nodes are examined and measured")
    health = asyncio.run(examine(context, cells))
    with closing(context.connect()) as connection:
        nodes = cluster_preflight.record_preflight(connection, run_id, health, cluster.health)
    observer.examined(health, nodes)
    found = short_controls(health.controls, health.busy, cluster.health.min_controls)
    for each in found:
        observer.say(f"{each.title}: {each.found}; expected {each.expected}. {each.advice}")
    for control, share in of_peaks(health, cluster):
        low = f": less than {LEAST_SHARE:.0%}; look at clocks, power limits, the library's version"
        observer.say(
            f"{control.node} {control.device} {control.metric}: {control.median:.4g} "
            f"{control.unit}, "
            f"{share:.0%} of the dense peak{low if share < LEAST_SHARE else ''}"
        )
    short = tuple(each.title for each in found if each.level is FindingLevel.FAIL)
    states = context.states(cells, again=again)
    due = with_single_device(states)
    if not due:
        observer.say("no mode is due")
        return AcceptanceEnd(short)
    plan = make_plan(
        acceptance_suite(due, cluster, context.requested_by),
        cluster,
        context.catalog,
        run_kind=RunKind.ACCEPTANCE,
        run_id=run_id,
        requested_by=context.requested_by,
        started_at=now,
        dag_id=context.dag_id,
        dag_run_id=context.dag_run_id,
        deadline=span.end if span else None,
        past=case_histories(cluster.name, context.connect, context.spool),
    )
    folder = store_plan(plan, context.spool)
    observer.say(f"run {run_id}: {len(plan.jobs)} cases on {cluster.name}")
    out = run_preflight.nodes_out_tonight(health, nodes)
    cluster_preflight.save(folder, health, cluster.health, out)
    placement = run_preflight.place_around(plan.jobs, cluster, out)
    run_preflight.save_placement(folder, placement)
    for why in out.values():
        observer.say(sentences(why))
    interrupted = False
    try:
        _measure(placement.jobs, plan.run.code_digest, folder, context, states, observer)
    except KeyboardInterrupt:
        interrupted = True
        observer.say(f"{run_id} was cancelled; its processes on the nodes have been ended")
    mark_ended(folder)
    observer.say(ingest_run(context.spool, run_id, context.connect).sentence())
    return AcceptanceEnd(short, interrupted)


def of_peaks(health: ClusterHealth, cluster: Cluster) -> list[tuple[Control, float]]:
    """Matrix products of GPUs that work for nobody else, with their share of the dense peak."""
    models = {
        node.seen.node: {gpu["name"] for gpu in (node.seen.document or {}).get("gpus", ())}
        for node in health.nodes
    }

    def peak(node: str, precision: str) -> float | None:
        return peak_of(next(iter(models[node]), None), precision, cluster)

    alike = [each for each in health.valid_controls if len(models.get(each.node, ())) == 1]
    return product_shares(alike, peak)


def with_single_device(states: Sequence[ModeState]) -> tuple[ModeCell, ...]:
    """What is due, and the single device of what is due at many."""
    wide = {state.cell.narrower for state in states if state.to_try and state.cell.is_wide}
    return tuple(
        state.cell
        for state in states
        if state.to_try
        or (state.cell.case and state.cell.case.trainers == 1 and state.cell.narrower in wide)
    )


def _measure(
    jobs: Sequence[JobSpec],
    code_digest: str,
    folder: RunSpool,
    context: AcceptanceContext,
    states: Sequence[ModeState],
    observer: AcceptanceObserver,
) -> None:
    """Measure the cases of few devices, and those of many whose mode holds at few.

    Raises:
        KeyboardInterrupt: the user ended it; no process is left on a node.
    """
    cluster = context.cluster
    shipment = shipment_of_now(code_digest, cluster.environments.wheelhouse)
    cells = {state.cell.case.case_id: state.cell for state in states if state.cell.case}
    wide = [job for job in jobs if cells[job.case.case_id].is_wide]

    def measure(some: Sequence[JobSpec]) -> None:
        case_runner.measure_cases(
            list(map(_beside_plain_loop, some)),
            folder,
            context.targets,
            shipment,
            on_event=watcher.hear,
            refresh=watcher.refresh,
            at_once=cluster.parallel_cases,
        )

    with observer.watch(folder) as watcher:
        measure([job for job in jobs if job not in wide])
        failed = _failed(folder, cells) if wide else {}
        for job in wide:
            if why := failed.get(cells[job.case.case_id].narrower):
                observer.say(f"{job.case.case_id} is not tried: {why} did not pass")
        measure([job for job in wide if cells[job.case.case_id].narrower not in failed])


def _beside_plain_loop(job: JobSpec) -> JobSpec:
    """The same job; a trainer that is alone takes turns with a plain loop after its window."""
    if job.case.strategy is not Strategy.SINGLE:
        return job
    return dataclasses.replace(job, env={**job.env, "NIGHTBENCH_PLAIN_ROUNDS": str(ROUNDS)})


def _failed(folder: RunSpool, cells: Mapping[str, ModeCell]) -> dict[tuple[str, str], str]:
    """Modes that did not hold in a run -> the case that shows it."""
    return {
        cells[each.case.case_id].narrower: each.case.case_id
        for each in build_bundle(folder).cases
        if each.status is not CaseStatus.OK
        or each.measurement is None
        or each.measurement.quarantined
    }
