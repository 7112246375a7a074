"""Cases whose nodes take no part: placed on others, or ended as failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from nightbench.core.model import CaseStatus, Cluster, JobSpec
from nightbench.core.placement import NodesAway, place
from nightbench.night.preflight import ClusterHealth
from nightbench.nodes import NodeState
from nightbench.spool import RunSpool, utc_now

UNAVAILABLE = "node unavailable"
"""How the reason begins of a case that found too few nodes."""


def out_tonight(health: ClusterHealth, states: Mapping[str, NodeState]) -> dict[str, str]:
    """Node -> why it takes no part: it failed the preflight, or is in quarantine."""
    out = {}
    for node in health.nodes:
        name, state = node.seen.node, states.get(node.seen.node)
        if node.fault is not None:
            out[name] = node.fault
        elif state is not None and state.quarantined:
            since = f" since {state.since:%Y-%m-%d %H:%M} UTC" if state.since else ""
            out[name] = f"in quarantine{since}: {state.reason}"
    return out


@dataclasses.dataclass(frozen=True)
class Placement:
    """The jobs of a run after some nodes were left out."""

    jobs: tuple[JobSpec, ...]
    """Those that can be measured, in their order."""
    moved: tuple[str, ...]
    """case_ids that are measured on other nodes than planned."""
    unplaced: Mapping[str, str]
    """case_id -> why it cannot be measured."""


def place_around(jobs: Iterable[JobSpec], cluster: Cluster, out: Mapping[str, str]) -> Placement:
    """Place the cases whose nodes are out on others, where the cluster has them."""
    kept: list[JobSpec] = []
    moved: list[str] = []
    unplaced: dict[str, str] = {}
    for job in jobs:
        lost = sorted({node.name for node in job.nodes} & out.keys())
        if not lost:
            kept.append(job)
            continue
        try:
            nodes, processes = place(job.case, cluster, without=out.keys())
        except NodesAway as error:
            why = "; ".join(f"{node}: {out[node]}" for node in lost)
            unplaced[job.case.case_id] = f"{UNAVAILABLE}: {why} ({error})"
            continue
        moved.append(job.case.case_id)
        kept.append(dataclasses.replace(job, nodes=nodes, processes=processes))
    return Placement(tuple(kept), tuple(moved), unplaced)


def keep_placement(folder: RunSpool, placement: Placement) -> None:
    """Write what a placement means into the run's plan and cases.

    Cases that cannot be measured end as failed; `planned.json` names the processes as they are
    placed now.
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
    for case_id, reason in placement.unplaced.items():
        store = folder.case(case_id, 0)
        if store.outcome() is None and store.job() is None:
            store.save_outcome(
                {
                    "status": str(CaseStatus.FAILED),
                    "reason": reason,
                    "repeats": [],
                    "ended_at": utc_now(),
                }
            )
