"""Measures the acceptance of a cluster, for the command and for the DAG `nightbench_accept`.

An interrupted acceptance is resumed: its results are loaded first, and only configurations that
must be retested are tried.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from nightbench.accept.cells import SUITE, ModeCell, acceptance_suite, mode_cells
from nightbench.accept.controls import peak_remarks, short_controls
from nightbench.accept.states import ModeState, mode_states
from nightbench.core.capabilities import untried_because
from nightbench.core.errors import ItemErrors, UserError
from nightbench.core.model import CaseStatus, Catalog, Cluster, JobSpec, RunKind
from nightbench.core.run_plan import make_plan, new_run_id
from nightbench.core.sentences import sentences
from nightbench.gang import Target, case_runner
from nightbench.night import cluster_preflight, run_preflight
from nightbench.night.cluster_preflight import ClusterHealth
from nightbench.night.code_snapshot import shipment_of_now
from nightbench.night.ingest import ingest_run
from nightbench.night.load_batch import build_load_batch
from nightbench.night.planning import case_histories, open_now
from nightbench.nodes import FindingLevel, NodeState
from nightbench.report.live_view import LiveView
from nightbench.spool import RunSpool, Spool
from nightbench.spool.plans import mark_ended, store_plan
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect


@dataclass(frozen=True)
class AcceptanceEnd:
    """How an acceptance ended."""

    states: Sequence[ModeState]
    short: tuple[str, ...] = ()
    """Controls below what the cluster's file wants, or not measured."""
    interrupted: bool = False

    @property
    def good(self) -> bool:
        """Whether no configuration failed and every control measurement is high enough."""
        return not self.short and all(state.outcome != "failed" for state in self.states)


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
        """Return the state of each configuration by the warehouse.

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
    """Return the configurations of some lines, or of all that are not for tests, on a cluster.

    Args:
        lines: names; all if empty.
        modes: configurations such as `single bf16`; all if empty.
        cluster: the cluster.
        catalog: the catalog of the lines.
        untried: includes configurations that were never run on such devices.

    Raises:
        UserError: there is no such line, or no such configuration in any of them.
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
            raise UserError(f"configuration: found {mode}; expected one of {', '.join(known)}")
    return [
        cell
        for cell in cells
        if (not modes or cell.mode in modes)
        and (untried or not cell.case or untried_because(cell.case, cluster, catalog, {}) is None)
    ]


def _load_interrupted(cluster: str, spool: Spool, connect: Connect) -> None:
    """Load what an interrupted acceptance of a cluster measured before its process died.

    One that cannot be loaded is named in the log.

    Raises:
        UserError: another process measures one.
    """
    errors = ItemErrors()
    for run in spool.runs():
        document = run.run() or {}
        ours = document.get("run_kind") == RunKind.ACCEPTANCE and document["cluster"] == cluster
        if not ours or run.loaded() is not None:
            continue
        if run.is_controlled():
            raise UserError(
                f"cluster {cluster}: {run.run_id} is being measured by another process. Wait for "
                f"its end, or cancel the run: nightbench cancel {run.run_id}"
            )
        with errors.of(f"run {run.run_id} is not loaded"):
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
    """Examine the nodes and try the configurations that must be retested; return how it ended.

    With `again` those that were last tried before then are retested, too. A configuration is tried
    at more than two devices once it passed at fewer, together with its single device, for the
    efficiency.

    Raises:
        UserError: nothing is measured: closed hours, another acceptance of the cluster is being
            measured, or the warehouse is away.
    """
    cluster, now = context.cluster, datetime.now(UTC)
    _load_interrupted(cluster.name, context.spool, context.connect)
    closes_at = None if context.outside_hours else open_now(cluster, now)
    run_id = new_run_id(SUITE, now)
    observer.say(f"cluster {cluster.name}: checking and measuring {len(cluster.nodes)} nodes")
    health = asyncio.run(examine(context, cells))
    with opened(context.connect) as warehouse:
        nodes = cluster_preflight.record_preflight(warehouse, run_id, health, cluster.health)
    observer.examined(health, nodes)
    found = short_controls(health, cluster.health.min_controls)
    for each in found:
        observer.say(f"{each.title}: {each.found}; expected {each.expected}. {each.advice}")
    for remark in peak_remarks(health, cluster):
        observer.say(remark)
    short = tuple(each.title for each in found if each.level is FindingLevel.FAIL)
    states = context.states(cells, again=again)
    due = with_single_device(states)
    if not due:
        observer.say("no configuration must be retested")
        return AcceptanceEnd(context.states(cells), short)
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
        deadline=closes_at,
        past=case_histories(cluster.name, context.connect),
    )
    folder = store_plan(plan, context.spool)
    observer.say(f"run {run_id}: {len(plan.jobs)} cases on {cluster.name}")
    placement, out = run_preflight.place_on_healthy(plan.jobs, folder, cluster, health, nodes)
    for why in out.values():
        observer.say(sentences(why))
    interrupted = False
    try:
        _measure(placement.jobs, plan.run.code_digest, folder, context, states, observer)
    except KeyboardInterrupt:
        interrupted = True
        observer.say(f"{run_id} was cancelled; its processes on the nodes have been ended")
    mark_ended(folder)
    observer.say(ingest_run(context.spool, run_id, context.connect))
    return AcceptanceEnd(context.states(cells), short, interrupted)


def with_single_device(states: Sequence[ModeState]) -> tuple[ModeCell, ...]:
    """Return the cells that must be retested, with the single device of those of many devices."""
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
    """Measure cases with few devices, then cases with many devices whose mode passed with few.

    Raises:
        KeyboardInterrupt: the user ended it; no process is left on a node.
    """
    cluster = context.cluster
    shipment = shipment_of_now(code_digest, cluster.environments.wheelhouse)
    cells = {state.cell.case.case_id: state.cell for state in states if state.cell.case}
    wide = [job for job in jobs if cells[job.case.case_id].is_wide]

    def measure(some: Sequence[JobSpec]) -> None:
        case_runner.measure_cases(
            some,
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


def _failed(folder: RunSpool, cells: Mapping[str, ModeCell]) -> dict[tuple[str, str], str]:
    """Return the modes that did not pass in a run, with the case that shows it."""
    return {
        cells[each.case.case_id].narrower: each.case.case_id
        for each in build_load_batch(folder).cases
        if each.status is not CaseStatus.OK
        or each.measurement is None
        or each.measurement.quarantined
    }
