"""The preflight of a run on a worker: look at the nodes, book it, place cases around the ill ones.

Nothing here fails a run: a node that is ill costs the cases that need it, and where nothing could
be looked at the cases find out by themselves.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nightbench.core.errors import UserError
from nightbench.orchestration import places

if TYPE_CHECKING:
    from nightbench.core.model import Cluster, HealthPolicy
    from nightbench.gang import GangEvent
    from nightbench.night.preflight import ClusterHealth
    from nightbench.nodes import NodeState
    from nightbench.orchestration.jobs import PlannedJob
    from nightbench.spool import RunSpool

SCHEMA = "nightbench.planned-cluster/1"
LOOK_LIMIT_S = 900.0
"""For looking at all nodes of a run; below the task's own limit."""
log = logging.getLogger(__name__)


def save_cluster(run: RunSpool, cluster: Cluster) -> None:
    """Keep the cluster as it was planned for: an edit of its YAML changes no run under way."""
    from nightbench.spool import write_json

    write_json(run.folder / "cluster.json", {"schema": SCHEMA, **dataclasses.asdict(cluster)})


def load_cluster(run: RunSpool) -> Cluster:
    """The cluster as `save_cluster` kept it.

    Raises:
        UserError: the run has none, or one of another version.
    """
    from nightbench.core.model import Cluster
    from nightbench.orchestration.jobs import decode
    from nightbench.spool import read_json

    path = run.folder / "cluster.json"
    document = read_json(path) or {}
    if document.get("schema") != SCHEMA:
        raise UserError(f'{path}: schema: found {document.get("schema")!r}, expected "{SCHEMA}"')
    return decode(Cluster, {name: value for name, value in document.items() if name != "schema"})


def examine_run(run_id: str) -> dict[str, Any]:
    """Look at the nodes of a planned run and place its cases around those that are ill.

    Orphans of ours are ended first. Returns what XCom keeps: who is out, what was moved, what
    cannot be measured.
    """
    run = places.spool().run(run_id)
    try:
        cluster = load_cluster(run)
        health = asyncio.run(asyncio.wait_for(_look(run, cluster), LOOK_LIMIT_S))
    except TimeoutError:
        # The task's own limit would fail it, and with it every case.
        log.error("The nodes could not be looked at within %.0f s", LOOK_LIMIT_S)
        return {"problem": f"the nodes could not be looked at within {LOOK_LIMIT_S:.0f} s"}
    except UserError as error:
        # The cases meet the same trouble, and say it each for itself.
        log.error("The nodes could not be looked at: %s", error)
        return {"problem": str(error)}
    except Exception as defect:
        # Ours, over an answer that nobody had thought of: one odd node must not cost the night.
        log.exception("The nodes could not be looked at")
        return {"problem": f"a defect of Nightbench, see the log of this task: {defect!r}"}
    _tell(health)
    states = _book(run_id, health, cluster.health)
    return _place(run, cluster, health, states)


async def _look(run: RunSpool, cluster: Cluster) -> ClusterHealth:
    from nightbench.config import load_catalog
    from nightbench.core.model import RunKind
    from nightbench.night.preflight import examine
    from nightbench.orchestration.connections import ssh_targets_async

    def hear(event: GangEvent) -> None:
        log.info("%s", f"{event.node}: {event.message}" if event.node else event.message)

    frameworks = load_catalog(places.benchmarks_folder()).frameworks
    wanted = {entry["axes"]["framework"] for entry in run.planned()}
    return await examine(
        cluster,
        await ssh_targets_async(cluster),
        places.shipment(cluster.environments.wheelhouse),
        [frameworks[line] for line in sorted(wanted & frameworks.keys())],
        # They are series of the nights: whoever asks for a case by day waits for the case.
        controls=(run.run() or {}).get("run_kind") == RunKind.NIGHTLY,
        sweep=True,
        on_event=hear,
    )


def _tell(health: ClusterHealth) -> None:
    from nightbench.nodes import Level

    levels = {Level.FAIL: logging.ERROR, Level.WARN: logging.WARNING, Level.INFO: logging.INFO}
    for node in health.nodes:
        log.info("%s: %s", node.seen.node, node.level or "well")
        for f in node.findings:
            said = (node.seen.node, f.what, f.found, f.expected, f.advice)
            log.log(levels[f.level], "%s: %s: %s; expected %s. %s", *said)
    for f in health.between:
        log.log(levels[f.level], "%s: %s; expected %s. %s", f.what, f.found, f.expected, f.advice)


def _book(run_id: str, health: ClusterHealth, policy: HealthPolicy) -> dict[str, NodeState]:
    from nightbench.night.node_records import book
    from nightbench.orchestration.runs import connect

    try:
        connection = connect()
        try:
            return book(connection, run_id, health, policy)
        finally:
            connection.close()
    except UserError as error:
        # Away, or it refuses (a migration that is missing, say): the ingest will say it again.
        log.warning("Who is in quarantine is unknown, the preflight waits in the spool: %s", error)
        return {}


def _place(
    run: RunSpool, cluster: Cluster, health: ClusterHealth, states: Mapping[str, NodeState]
) -> dict[str, Any]:
    from nightbench.night.preflight import save
    from nightbench.night.replacement import keep_placement, out_tonight, place_around
    from nightbench.orchestration.jobs import load_job, save_job

    out = out_tonight(health, states)
    save(run, health, cluster.health, out)
    for node, reason in out.items():
        log.error("%s takes no part tonight: %s", node, reason)
    planned = {
        case_id: load_job(run, case_id, 0)
        for case_id in (entry["case_id"] for entry in run.planned())
        if (run.folder / "jobs" / f"{case_id}.json").exists()
    }
    placement = place_around([each.job for each in planned.values()], cluster, out)
    for job in placement.jobs:
        case_id = job.case.case_id
        if case_id in placement.moved:
            save_job(run, dataclasses.replace(planned[case_id], job=job))
            log.warning("%s goes to %s", case_id, ", ".join(node.name for node in job.nodes))
    keep_placement(run, placement)
    for case_id, reason in placement.unplaced.items():
        log.error("%s: %s", case_id, reason)
    return {"out": out, "moved": list(placement.moved), "unplaced": dict(placement.unplaced)}


# --- before each case -----------------------------------------------------------------------


def around_ill_nodes(run: RunSpool, planned: PlannedJob) -> PlannedJob:
    """The job on nodes that have not failed tonight; the same where its own have not.

    Raises:
        UserError: too few nodes are left: `node unavailable: ...`.
    """
    from nightbench.night.node_records import out_by_now
    from nightbench.night.replacement import place_around
    from nightbench.orchestration.jobs import save_job

    out = out_by_now(run, planned.job.cluster)
    if not {node.name for node in planned.job.nodes} & out.keys():
        return planned
    placement = place_around([planned.job], load_cluster(run), out)
    for reason in placement.unplaced.values():
        raise UserError(reason)
    moved = dataclasses.replace(planned, job=placement.jobs[0])
    save_job(run, moved)
    where = ", ".join(node.name for node in moved.job.nodes)
    log.warning("%s goes to %s: %s", planned.job.case.case_id, where, out)
    return moved
