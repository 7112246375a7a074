"""The preflight of a run: examine its nodes, record that, place cases around unhealthy ones.

It never fails a run. An unhealthy node costs the cases that need it, and one without enough nodes
ends as failed. If the nodes cannot be examined, each case meets the same problem and reports it.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from nightbench.config import load_catalog
from nightbench.config.clusters import on_this_machine
from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseStatus,
    Cluster,
    HealthPolicy,
    JobSpec,
    Reason,
    ReasonCode,
    RunKind,
)
from nightbench.core.placement import TooFewNodes, moved, nodes_for
from nightbench.core.sentences import sentences
from nightbench.gang import Target
from nightbench.night.cluster_preflight import (
    ClusterHealth,
    examine,
    nodes_out_now,
    record_preflight,
    save,
)
from nightbench.night.code_snapshot import kept_shipment
from nightbench.nodes import FindingLevel, NodesOut, NodeState, left_out_because
from nightbench.spool import RunSpool
from nightbench.spool.plans import PlannedJob, load_cluster, load_job, save_job
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect

EXAMINE_LIMIT_S = 900.0
"""For all nodes of a run; below the time limit of the task."""

OpenTargets = Callable[[Cluster], Awaitable[Mapping[str, Target]]]
"""How each node of a cluster is reached."""

log = logging.getLogger(__name__)


def nodes_out_tonight(health: ClusterHealth, states: Mapping[str, NodeState]) -> NodesOut:
    """Return the nodes that failed the preflight or are in quarantine."""
    out: NodesOut = {}
    for node in health.nodes:
        name, state = node.seen.node, states.get(node.seen.node)
        if node.fault is not None:
            out[name] = left_out_because(name, node.fault)
        elif state is not None and state.quarantined:
            out[name] = left_out_because(name, state.quarantine_reason, *state.reasons)
    return out


@dataclasses.dataclass(frozen=True)
class Placement:
    """The jobs of a run after some nodes were left out."""

    jobs: tuple[JobSpec, ...]
    """Jobs that can be measured, in their order."""
    moved: tuple[str, ...]
    """case_ids that moved to other nodes."""
    unplaced: Mapping[str, tuple[Reason, ...]]
    """case_id -> why it cannot be measured."""


def place_around(jobs: Iterable[JobSpec], cluster: Cluster, out: NodesOut) -> Placement:
    """Move cases whose nodes are left out to others, if the cluster has them."""
    kept: list[JobSpec] = []
    changed: list[str] = []
    unplaced: dict[str, tuple[Reason, ...]] = {}
    for job in jobs:
        lost = sorted({node.name for node in job.nodes} & out.keys())
        if not lost:
            kept.append(job)
            continue
        try:
            # A job keeps the CPU architecture that it was placed on.
            same = [node for node in cluster.nodes if node.machine == job.nodes[0].machine]
            there = dataclasses.replace(cluster, nodes=tuple(same))
            nodes = nodes_for(job.case, there, out.keys())
        except TooFewNodes as error:
            unplaced[job.case.case_id] = (
                *(reason for node in lost for reason in out[node]),
                Reason(ReasonCode.TOO_FEW_NODES, observed=str(error)),
            )
            continue
        changed.append(job.case.case_id)
        processes = moved(job.processes, job.nodes, nodes, cluster)
        kept.append(dataclasses.replace(job, nodes=nodes, processes=processes))
    return Placement(tuple(kept), tuple(changed), unplaced)


def save_placement(folder: RunSpool, placement: Placement) -> None:
    """Write a placement into the run's plan and cases.

    Cases that cannot be measured end as failed; `planned.json` gets the new placement.
    """
    now = {job.case.case_id: job for job in placement.jobs}
    changed: list[dict[str, Any]] = []
    for entry in folder.planned():
        job = now.get(entry["case_id"])
        if entry["case_id"] in placement.moved and job is not None:
            entry = {**entry, "processes": [dataclasses.asdict(p) for p in job.processes]}
        changed.append(entry)
    if placement.moved:
        folder.save_planned(changed)
    for case_id, reasons in placement.unplaced.items():
        store = folder.case(case_id, 0)
        if store.job() is None:
            store.end(CaseStatus.FAILED, reasons)


class CaseUnplaced(UserError):
    """Too few nodes are left for a case."""

    def __init__(self, reasons: tuple[Reason, ...]) -> None:
        self.reasons = reasons
        super().__init__(sentences(reasons))


def place_around_unhealthy(run: RunSpool, planned: PlannedJob) -> PlannedJob:
    """Return the job on nodes that have not failed in this run; unchanged if its own have not.

    Raises:
        CaseUnplaced: too few nodes are left.
    """
    out = nodes_out_now(run, planned.job.cluster)
    if not {node.name for node in planned.job.nodes} & out.keys():
        return planned
    placement = place_around([planned.job], load_cluster(run), out)
    for reasons in placement.unplaced.values():
        raise CaseUnplaced(reasons)
    moved = dataclasses.replace(planned, job=placement.jobs[0])
    save_job(run, moved)
    where = ", ".join(node.name for node in moved.job.nodes)
    why = "; ".join(map(sentences, out.values()))
    log.warning("%s moves to %s: %s", planned.job.case.case_id, where, why)
    return moved


def examine_run(run: RunSpool, open_targets: OpenTargets, connect: Connect) -> str | None:
    """Examine the nodes of a planned run and place its cases around the unhealthy ones.

    Orphaned processes of Nightbench are ended first.

    Returns:
        Why the nodes could not be examined; None if they were.
    """
    try:
        cluster = on_this_machine(load_cluster(run))
        examined = _examine(run, cluster, open_targets)
        health = asyncio.run(asyncio.wait_for(examined, EXAMINE_LIMIT_S))
    except TimeoutError:
        # Without this limit, the task's own timeout would fail all cases.
        log.error("The nodes could not be examined within %.0f s", EXAMINE_LIMIT_S)
        return f"the nodes could not be examined within {EXAMINE_LIMIT_S:.0f} s"
    except UserError as error:
        # Each case meets the same problem and reports it.
        log.error("The nodes could not be examined: %s", error)
        return str(error)
    except Exception as defect:  # An unexpected answer of one node must not end the night.
        log.exception("The nodes could not be examined")
        return f"a defect of Nightbench; see the log of this task: {defect!r}"
    _log_findings(health)
    states = record(run.run_id, health, cluster.health, connect)
    _place(run, cluster, health, states)
    return None


async def _examine(run: RunSpool, cluster: Cluster, open_targets: OpenTargets) -> ClusterHealth:
    targets, document = await open_targets(cluster), run.run() or {}
    shipment = kept_shipment(run, document["code_digest"], cluster.environments.wheelhouse)
    frameworks = load_catalog(shipment.benchmarks).frameworks
    wanted = {entry["axes"]["framework"] for entry in run.planned()}
    return await examine(
        cluster,
        targets,
        shipment,
        [frameworks[line] for line in sorted(wanted & frameworks.keys())],
        # Controls are series of nightly runs; a run on demand does not wait for them.
        controls=document.get("run_kind") == RunKind.NIGHTLY,
        sweep=True,
        on_event=lambda event: log.info("%s", event),
    )


def _log_findings(health: ClusterHealth) -> None:
    levels = {
        FindingLevel.FAIL: logging.ERROR,
        FindingLevel.WARN: logging.WARNING,
        FindingLevel.INFO: logging.INFO,
    }
    for node in health.nodes:
        log.info("%s: %s", node.seen.node, node.level or "well")
        for f in node.findings:
            said = (node.seen.node, f.title, f.found, f.expected, f.advice)
            log.log(levels[f.level], "%s: %s: %s; expected %s. %s", *said)
    for f in health.between:
        log.log(levels[f.level], "%s: %s; expected %s. %s", f.title, f.found, f.expected, f.advice)


def record(
    run_id: str, health: ClusterHealth, policy: HealthPolicy, connect: Connect
) -> dict[str, NodeState]:
    """Store a preflight; return the states of the nodes, or none if the warehouse is away."""
    try:
        with opened(connect) as warehouse:
            return record_preflight(warehouse, run_id, health, policy)
    except UserError as error:
        # The warehouse is away, or refuses (a missing migration): the ingest reports that again.
        log.warning("Quarantined nodes are unknown, the preflight waits in the spool: %s", error)
        return {}


def place_on_healthy(
    jobs: Iterable[JobSpec],
    run: RunSpool,
    cluster: Cluster,
    health: ClusterHealth,
    states: Mapping[str, NodeState],
) -> tuple[Placement, NodesOut]:
    """Store a run's preflight and place its cases; return the placement and the nodes left out."""
    out = nodes_out_tonight(health, states)
    save(run, health, cluster.health, out)
    placement = place_around(jobs, cluster, out)
    save_placement(run, placement)
    return placement, out


def _place(
    run: RunSpool, cluster: Cluster, health: ClusterHealth, states: Mapping[str, NodeState]
) -> None:
    planned = {
        case_id: load_job(run, case_id, 0)
        for case_id in (entry["case_id"] for entry in run.planned())
        if (run.folder / "jobs" / f"{case_id}.json").exists()
    }
    jobs = [each.job for each in planned.values()]
    placement, out = place_on_healthy(jobs, run, cluster, health, states)
    for reasons in out.values():
        log.error("%s", sentences(reasons))
    for job in placement.jobs:
        case_id = job.case.case_id
        if case_id in placement.moved:
            save_job(run, dataclasses.replace(planned[case_id], job=job))
            log.warning("%s moves to %s", case_id, ", ".join(node.name for node in job.nodes))
    for case_id, why in placement.unplaced.items():
        log.error("%s: %s", case_id, sentences(why))
