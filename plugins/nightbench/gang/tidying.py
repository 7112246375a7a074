"""Tidying the nodes of a cluster: orphaned processes, old jobs, environments and code."""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Mapping
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, EnvironmentPolicy
from nightbench.gang.events import ignore
from nightbench.gang.node_access import Connect, Layout, call_agent, connections, lock_options
from nightbench.gang.shipping import Shipment, ship_code
from nightbench.gang.ssh_pool import shared
from nightbench.gang.ssh_target import SshTarget
from nightbench.gang.transport import Transport

log = logging.getLogger(__name__)


async def sweep(
    cluster: Cluster,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    job: str | None = None,
    kill: bool = False,
    connect: Connect = shared,
) -> dict[str, dict[str, Any]]:
    """List (or end) what no agent watches any more.

    Args:
        cluster: whose nodes.
        targets: how each is reached.
        shipment: the agent's code.
        job: instead every process of the jobs whose id begins so, with their agents.
        kill: end them.
        connect: makes a transport to a target.

    Returns:
        Node -> {"found": [{pid, job, node, cmd}], "killed": [pid]}; {"problem": why} with both
        empty where a node could not be asked, which keeps no other from being swept.
    """
    words = [*(["--job", job] if job else []), *(["--kill"] if kill else [])]
    return await _everywhere(cluster, targets, shipment, connect, "sweep", words)


async def clean(
    cluster: Cluster,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    keep_days: float,
    connect: Connect = shared,
) -> dict[str, dict[str, Any]]:
    """Remove jobs, environments and code that nothing has used for `keep_days`.

    Returns:
        Node -> {"removed": [path]}; {"problem": why} where a node could not be asked.
    """
    digest = await asyncio.to_thread(shipment.code_digest)
    words = ["--keep-days", f"{keep_days:g}", "--keep-code", digest]
    return await _everywhere(cluster, targets, shipment, connect, "clean", words)


async def sweep_and_clean(
    cluster: Cluster,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    keep_days: float,
) -> dict[str, Any]:
    """End our orphaned processes on a cluster's nodes and remove what is old there.

    A node that does not answer is logged and keeps no other from being swept: its orphans end with
    their lease, and before the next night's preflight.

    Returns:
        {"killed": node -> count, "removed": node -> count, "away": [node]}.

    Raises:
        UserError: no node answers.
    """
    swept = await sweep(cluster, targets, shipment, kill=True)
    cleaned = await clean(cluster, targets, shipment, keep_days)
    away = {n: a["problem"] for n, a in {**swept, **cleaned}.items() if a.get("problem")}
    for node, why in away.items():
        log.error("%s was not swept: %s", node, why)
    if len(away) == len(cluster.nodes):
        raise UserError(f"no node of {cluster.name} could be swept: {next(iter(away.values()))}")
    for node, found in swept.items():
        for process in found["found"]:
            log.info("%s: orphan %s of %s", node, process.get("pid"), process.get("job"))
        log.info("%s: %d orphans ended", node, len(found["killed"]))
    return {
        "killed": {node: len(found["killed"]) for node, found in swept.items()},
        "removed": {node: len(found.get("removed", ())) for node, found in cleaned.items()},
        "away": sorted(away),
    }


async def _everywhere(
    cluster: Cluster,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    connect: Connect,
    verb: str,
    words: list[str],
) -> dict[str, dict[str, Any]]:
    async def ask(transport: Transport) -> dict[str, Any]:
        try:
            return await _verb(transport, cluster.environments, shipment, verb, *words)
        except UserError as error:
            return {"found": [], "killed": [], "removed": [], "problem": str(error)}

    async with connections(cluster.nodes, targets, connect) as transports:
        answers = await asyncio.gather(*map(ask, transports.values()))
        return dict(zip(transports, answers, strict=True))


async def _verb(
    transport: Transport,
    policy: EnvironmentPolicy,
    shipment: Shipment,
    verb: str,
    *words: str,
) -> dict[str, Any]:
    layout = await Layout.of(transport, policy)
    code = await ship_code(transport, layout, shipment, policy.python, ignore)
    return await call_agent(
        transport,
        policy.python,
        posixpath.join(code, "agent.py"),
        verb,
        *(layout.options() if verb == "clean" else ["--root", layout.root]),
        *lock_options(policy),
        *words,
    )
