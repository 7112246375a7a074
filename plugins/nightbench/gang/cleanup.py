"""Cancels jobs, ends orphaned processes and removes old files on nodes.

Cancelling stops the agents of a job, ends the processes that are left, and checks that none is.
"""

import asyncio
import json
import logging
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseStatus,
    Cluster,
    EnvironmentPolicy,
    JobSpec,
    Reason,
    ReasonCode,
)
from nightbench.gang.errors import NodeError, RemoteFailure
from nightbench.gang.kubernetes_api import PodTarget
from nightbench.gang.node_access import Agent, Layout, connections, on_all, read_document
from nightbench.gang.node_client import EPOCH
from nightbench.gang.pod_states import PodState
from nightbench.gang.pods import delete_run, pods_of, pods_of_run, remove_orphans
from nightbench.gang.progress import ignore
from nightbench.gang.shipping import Shipment, ship_agent
from nightbench.gang.slurm_launcher import end_job
from nightbench.gang.transport import Target, Transport, shared_transport
from nightbench.spool import CaseStore

log = logging.getLogger(__name__)

AGENT_ENDS_S = 30.0
"""Time in which an agent must end its processes, beyond the job's time to terminate."""

CONTROLLER_ENDS_S = 20.0
"""Time in which the controller of a cancelled case deletes its pods."""

SWEEPS = 5
"""Attempts to end all processes: an agent that is just starting reads the stop command later."""


@dataclass(frozen=True)
class CancelReport:
    """Agents that were stopped and processes that were ended."""

    stopped: Mapping[str, list[str]] = field(default_factory=dict)
    """Node -> job folders in which the stop command was written."""
    killed: Mapping[str, list[int]] = field(default_factory=dict)
    """Node -> pids that the sweep ended."""


async def cancel(
    job: JobSpec,
    targets: Mapping[str, Target],
    reason: str = "by a command",
    store: CaseStore | None = None,
) -> CancelReport:
    """End a job on all its nodes; its controller, if one runs, then records it as cancelled.

    Nothing happens if it was never prepared. `store` gets the outcome, also if this raises; it
    is None if a controller does that.

    Raises:
        NodeError: a node does not answer; its processes end when the lease expires.
        GangError: a process could not be ended.
    """
    stop = _Stop(job.environments, job.job_id, reason, job.limits.term_s)

    async def on_node(node: str, transport: Transport) -> Ended:
        folder = (await Layout.of(transport, job.environments)).job(job, node)
        return await stop.on(transport, [folder], in_slurm=targets[node].slurm is not None)

    pods = pods_of(job, targets)
    try:
        there = set(await pods.running()) if pods is not None else {node.name for node in job.nodes}
        nodes = [node for node in job.nodes if node.name in there]
        async with connections(nodes, targets, job.job_id) as transports:
            return await _on_nodes(transports, on_node)
    finally:
        try:
            if pods is not None:
                await pods.delete()
        finally:
            # Also when a node does not answer: its processes end when the lease expires.
            if store is not None:
                await asyncio.to_thread(store.end, CaseStatus.CANCELLED, [stop.why])


async def cancel_run(
    run_id: str,
    cluster: Cluster,
    targets: Mapping[str, Target],
    reason: str = "by a command",
) -> CancelReport:
    """End every job of a run on all nodes of a cluster; see `cancel`."""
    pods = {name: each for name, each in targets.items() if isinstance(each, PodTarget)}
    if pods:
        return await _cancel_pods(run_id, cluster, pods, reason)

    stop = _Stop(cluster.environments, f"{run_id}/", reason)

    async def on_node(node: str, transport: Transport) -> Ended:
        run = (await Layout.of(transport, cluster.environments)).run(run_id)
        folders = []
        for case in await transport.listdir(run):
            for generation in await transport.listdir(posixpath.join(run, case)):
                folders.append(posixpath.join(run, case, generation, node))
        return await stop.on(transport, folders, in_slurm=targets[node].slurm is not None)

    async with connections(cluster.nodes, targets) as transports:
        return await _on_nodes(transports, on_node)


async def _cancel_pods(
    run_id: str, cluster: Cluster, targets: Mapping[str, PodTarget], reason: str
) -> CancelReport:
    """End every job of a run in its pods, and delete those that no controller deletes."""
    first = next(iter(targets.values()))

    async def on_pod(pod: PodState) -> Ended:
        transport = shared_transport(targets[pod.node].of_job(pod.job_id))
        try:
            layout = await Layout.of(transport, cluster.environments)
            folder = posixpath.join(layout.run(pod.job_id), pod.node)
            return await _Stop(cluster.environments, pod.job_id, reason).on(transport, [folder])
        finally:
            await transport.close()

    of_run = await pods_of_run(first, run_id)
    running = [pod for pod in of_run if pod.is_running and pod.node in targets]
    ended = await asyncio.gather(*map(on_pod, running), return_exceptions=True)
    # The controller sees the cancellation, and deletes pods while others are still asked.
    there = {pod.name for pod in await pods_of_run(first, run_id) if pod.end is None}
    await delete_run(first, run_id, CONTROLLER_ENDS_S)
    stopped: dict[str, list[str]] = {}
    killed: dict[str, list[int]] = {}
    for pod, result in zip(running, ended, strict=True):
        if not isinstance(result, BaseException):
            stopped.setdefault(pod.node, []).extend(result[0])
            killed.setdefault(pod.node, []).extend(result[1])
        elif pod.name in there or not isinstance(result, NodeError):
            raise result
    return CancelReport(stopped, killed)


async def _on_nodes(transports: Mapping[str, Transport], on_node: Any) -> CancelReport:
    """Run on all nodes; raise an error only after all nodes are done."""
    ended = await on_all(on_node(node, transport) for node, transport in transports.items())
    return CancelReport(
        stopped={node: e[0] for node, e in zip(transports, ended, strict=True)},
        killed={node: e[1] for node, e in zip(transports, ended, strict=True)},
    )


Ended = tuple[list[str], list[int]]
"""Folders of the jobs that were stopped, and pids of the processes that were ended."""


@dataclass(frozen=True)
class _Stop:
    """Ends the jobs whose ids begin with a prefix."""

    policy: EnvironmentPolicy
    prefix: str
    reason: str
    term_s: float = 10.0

    @property
    def why(self) -> Reason:
        return Reason(ReasonCode.CANCELLED, observed=self.reason)

    async def on(
        self, transport: Transport, folders: Iterable[str], *, in_slurm: bool = False
    ) -> Ended:
        """Stop a node's agents, then sweep. Slurm's agents end with their jobs."""
        layout = await Layout.of(transport, self.policy)
        stopped = []
        jobs = []
        code: str | None = None
        for folder in folders:
            job = await read_document(transport, posixpath.join(folder, "job.json"))
            if job is None:
                continue
            code = layout.code(job["code_digest"])
            control = posixpath.join(folder, "control")
            await transport.make_folders(control)
            claimed = [int(m[1]) for n in await transport.listdir(control) if (m := EPOCH.match(n))]
            # Higher than every controller's epoch, so that agents obey, but not claimed: the
            # running controller must see a cancellation and not another controller.
            stop = {
                "epoch": max(claimed, default=0) + 1,
                "cancelled": True,
                "reasons": [self.why.to_json()],
            }
            path = posixpath.join(control, "stop.json")
            await transport.write_atomic(path, json.dumps(stop).encode())
            stopped.append(folder)
            if in_slurm:
                jobs.append(str(job["job_id"]))
        code = code or await _any_code(transport, layout)
        if code is None:
            return [], []
        await _wait_for_end(transport, stopped, self.term_s + AGENT_ENDS_S)
        for job_id in jobs:
            await end_job(transport, job_id)
        agent = Agent(transport, self.policy, layout, code)
        killed: list[int] = []
        for _ in range(SWEEPS):
            swept = await agent.sweep(self.prefix, kill=True)
            killed += [int(pid) for pid in swept.get("killed", [])]
            left = await agent.sweep(self.prefix)
            if not left["found"]:
                return stopped, killed
            await asyncio.sleep(1)
        raise RemoteFailure.of(transport, f"cannot end these processes: {left['found']}")


async def _any_code(transport: Transport, layout: Layout) -> str | None:
    """Return the folder of some shipped code: a job names none while it is prepared."""
    folder = posixpath.join(layout.root, "code")
    shipped = [name for name in await transport.listdir(folder) if not name.startswith(".")]
    return posixpath.join(folder, shipped[0]) if shipped else None


async def _wait_for_end(transport: Transport, folders: Iterable[str], limit_s: float) -> None:
    """Wait for the agents to end their processes; the sweep ends what is left."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    for folder in folders:
        while loop.time() < until_s:
            agent = await read_document(transport, posixpath.join(folder, "agent.json"))
            if agent is None or agent.get("state") == "ended":
                break
            await asyncio.sleep(0.25)


# --- orphans and old files -----------------------------------------------------------------


async def sweep(
    cluster: Cluster,
    targets: Mapping[str, Target],
    shipment: Shipment,
    job: str | None = None,
    kill: bool = False,
) -> dict[str, dict[str, Any]]:
    """List (or end) processes whose agent is gone.

    With `job`, all processes of the jobs whose id begins so, agents included, instead.

    Returns:
        Node -> {"found": [{pid, job, node, cmd}], "killed": [pid]}; {"problem": why} with both
        empty if a node could not be asked; the others are swept all the same.
    """
    if any(isinstance(each, PodTarget) for each in targets.values()):
        return {name: {"found": [], "killed": []} for name in targets}  # processes end with pods
    return await _everywhere(cluster, targets, shipment, lambda agent: agent.sweep(job, kill=kill))


async def clean(
    cluster: Cluster,
    targets: Mapping[str, Target],
    shipment: Shipment,
    keep_days: float,
) -> dict[str, dict[str, Any]]:
    """Remove jobs, environments and code that nothing has used for `keep_days`.

    Returns:
        Node -> {"removed": [path]}, or the names of its pods that no run uses; {"problem": why}
        if a node could not be asked.
    """
    pods = {name: each for name, each in targets.items() if isinstance(each, PodTarget)}
    if pods:
        try:
            return {n: {"removed": names} for n, names in (await remove_orphans(pods)).items()}
        except UserError as error:
            return {name: {"removed": [], "problem": str(error)} for name in pods}

    async def ask(agent: Agent) -> dict[str, Any]:
        words = [
            *agent.where,
            *agent.layout.job_root_option,
            "--keep-code",
            posixpath.basename(agent.code),
        ]
        return await agent.call("clean", *words, "--keep-days", f"{keep_days:g}")

    return await _everywhere(cluster, targets, shipment, ask)


async def sweep_and_clean(
    cluster: Cluster,
    targets: Mapping[str, Target],
    shipment: Shipment,
    keep_days: float,
) -> dict[str, Any]:
    """End our orphaned processes on a cluster's nodes and remove what is old there.

    A node that does not answer is logged, and the others are swept all the same.

    Returns:
        {"killed": node -> count, "removed": node -> count, "away": [node]}.

    Raises:
        UserError: no node answers.
    """
    swept = await sweep(cluster, targets, shipment, kill=True)
    cleaned = await clean(cluster, targets, shipment, keep_days)
    away = {n: a["problem"] for n, a in {**swept, **cleaned}.items() if a.get("problem")}
    for node, why in away.items():
        log.error("%s was not cleaned: %s", node, why)
    if len(away) == len(cluster.nodes):
        raise UserError(f"no node of {cluster.name} could be cleaned: {next(iter(away.values()))}")
    for node, found in swept.items():
        for process in found["found"]:
            log.info("%s: orphan %s of %s", node, process.get("pid"), process.get("job"))
        log.info("%s: %d orphaned processes ended", node, len(found["killed"]))
    return {
        "killed": {node: len(found["killed"]) for node, found in swept.items()},
        "removed": {node: len(found.get("removed", ())) for node, found in cleaned.items()},
        "away": sorted(away),
    }


async def _everywhere(
    cluster: Cluster,
    targets: Mapping[str, Target],
    shipment: Shipment,
    call: Callable[[Agent], Awaitable[dict[str, Any]]],
) -> dict[str, dict[str, Any]]:
    async def ask(transport: Transport) -> dict[str, Any]:
        try:
            return await call(await ship_agent(transport, cluster.environments, shipment, ignore))
        except UserError as error:
            return {"found": [], "killed": [], "removed": [], "problem": str(error)}

    async with connections(cluster.nodes, targets) as transports:
        answers = await asyncio.gather(*map(ask, transports.values()))
        return dict(zip(transports, answers, strict=True))
