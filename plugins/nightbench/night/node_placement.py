"""Places cases around nodes that are left out; a case without enough nodes ends as failed."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, Cluster, JobSpec, Reason, ReasonCode
from nightbench.core.placement import NodesAway, moved, nodes_for
from nightbench.core.sentences import sentences
from nightbench.night.cluster_preflight import ClusterHealth
from nightbench.night.node_events import nodes_out_now
from nightbench.nodes import NodesOut, NodeState, left_out_because
from nightbench.spool import RunSpool
from nightbench.spool.planned_job import PlannedJob, load_cluster, save_job

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
    """Move cases whose nodes are left out to others, where the cluster has them."""
    kept: list[JobSpec] = []
    changed: list[str] = []
    unplaced: dict[str, tuple[Reason, ...]] = {}
    for job in jobs:
        lost = sorted({node.name for node in job.nodes} & out.keys())
        if not lost:
            kept.append(job)
            continue
        try:
            nodes = nodes_for(job.case, cluster, out.keys())
        except NodesAway as error:
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
    """Return the job on nodes that have not failed in this run; unchanged where its own have not.

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
    log.warning("%s goes to %s: %s", planned.job.case.case_id, where, why)
    return moved
