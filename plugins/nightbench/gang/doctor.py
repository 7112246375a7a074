"""The state of a cluster's nodes, and tidying them: doctor, sweep, clean."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nightbench.errors import UserError
from nightbench.gang.agentcall import call_agent
from nightbench.gang.events import OnEvent, ignore
from nightbench.gang.layout import Layout
from nightbench.gang.login import SshTarget
from nightbench.gang.pool import shared
from nightbench.gang.provisioning import Connect, connections, lock_words, on_all
from nightbench.gang.shipping import Shipment, ship_code
from nightbench.gang.transport import Transport, expand
from nightbench.model import Cluster, EnvironmentPolicy

LITTLE_DISK_BYTES = 5_000_000_000


@dataclass(frozen=True)
class NodeReport:
    """What the doctor found on one node."""

    node: str
    address: str
    reachable: bool
    problems: tuple[str, ...] = ()
    """Each with what to do; empty on a healthy node."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """python, disk_free_bytes, interpreters, gpus, uv, envs, lock_holder, load1, cpus, ..."""


async def doctor(
    cluster: Cluster,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    on_event: OnEvent = ignore,
    connect: Connect = shared,
) -> list[NodeReport]:
    """Look at every node of a cluster; a node that does not answer is a report, not an error."""

    async def examine(node: str, transport: Transport) -> NodeReport:
        reachable = False
        try:
            await transport.home()
            reachable = True
            found = await _verb(
                transport, cluster.environments, shipment, "doctor", on_event=on_event
            )
        except UserError as error:
            return NodeReport(node, transport.address, reachable, (str(error),))
        return NodeReport(node, transport.address, True, _problems(found), found)

    async with connections(cluster.nodes, targets, connect) as transports:
        return list(await asyncio.gather(*(examine(n, t) for n, t in transports.items())))


async def sweep(
    cluster: Cluster,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    job: str | None = None,
    kill: bool = False,
    connect: Connect = shared,
) -> dict[str, dict[str, Any]]:
    """List (or end) what no agent watches any more; by node {"found", "killed"}.

    Args:
        cluster: whose nodes.
        targets: how each is reached.
        shipment: the agent's code.
        job: instead every process of the jobs whose id begins so, with their agents.
        kill: end them.
        connect: makes a transport to a target.
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
    """Remove jobs, environments and code that nothing has used for `keep_days`, by node."""
    digest = await asyncio.to_thread(shipment.code_digest)
    words = ["--keep-days", f"{keep_days:g}", "--keep-code", digest]
    return await _everywhere(cluster, targets, shipment, connect, "clean", words)


async def _everywhere(
    cluster: Cluster,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    connect: Connect,
    verb: str,
    words: list[str],
) -> dict[str, dict[str, Any]]:
    async with connections(cluster.nodes, targets, connect) as transports:
        answers = await on_all(
            _verb(transport, cluster.environments, shipment, verb, *words)
            for transport in transports.values()
        )
        return dict(zip(transports, answers, strict=True))


async def _verb(
    transport: Transport,
    policy: EnvironmentPolicy,
    shipment: Shipment,
    verb: str,
    *words: str,
    on_event: OnEvent = ignore,
) -> dict[str, Any]:
    layout = Layout(await expand(transport, policy.root))
    code = await ship_code(transport, layout, shipment, policy.python, on_event)
    return await call_agent(
        transport,
        policy.python,
        posixpath.join(code, "agent.py"),
        verb,
        "--root",
        layout.root,
        *lock_words(policy),
        *words,
    )


def _problems(found: Mapping[str, Any]) -> tuple[str, ...]:
    problems = []
    if not found.get("writable", True):
        problems.append("environments.root cannot be written: choose another in the YAML")
    free = found.get("disk_free_bytes")
    if free is not None and free < LITTLE_DISK_BYTES:
        problems.append(
            f"{free / 1e9:.1f} GB free: an environment takes up to 5 GB; make room or move "
            "environments.root"
        )
    return tuple(problems)
