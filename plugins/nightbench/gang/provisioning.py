"""Preparing the nodes of a gang: code, tools, environments, job files. Nothing is launched."""

from __future__ import annotations

import asyncio
import json
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from nightbench.core.model import EnvironmentPolicy, JobSpec, Node
from nightbench.gang.agentcall import call_agent, words
from nightbench.gang.errors import EnvironmentUnavailable, GangError, RemoteFailure
from nightbench.gang.events import GangEvent, OnEvent, ignore
from nightbench.gang.layout import Layout
from nightbench.gang.login import SshTarget
from nightbench.gang.pool import shared
from nightbench.gang.shipment import Shipment
from nightbench.gang.shipping import Shipped, machine_of, ship
from nightbench.gang.transport import Transport, expand
from nightbench.gang.wheelhouse import Wheel, choose, line_of, wanted_by

T = TypeVar("T")
Connect = Callable[[SshTarget], Transport]


@asynccontextmanager
async def connections(
    nodes: Iterable[Node], targets: Mapping[str, SshTarget], connect: Connect = shared
) -> AsyncIterator[dict[str, Transport]]:
    """Transports to the nodes by name, closed at the end.

    Raises:
        GangError: a node has no target.
    """
    transports: dict[str, Transport] = {}
    for node in nodes:
        if node.name not in targets:
            raise GangError(
                f"node {node.name}: no SSH target was handed in (have: {sorted(targets)}). Does "
                f"the connection {node.ssh_conn_id} exist?"
            )
        transports[node.name] = connect(targets[node.name])
    try:
        yield transports
    finally:
        await asyncio.gather(*(t.close() for t in transports.values()))


async def on_all(work: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all, then raise the first error: nobody is left working in the background."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
    return [result for result in done if not isinstance(result, BaseException)]


async def prepare(
    job: JobSpec,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    on_event: OnEvent = ignore,
    connect: Connect = shared,
) -> None:
    """Bring the gang's nodes to where `run_gang` can start; doing it again costs little.

    Every node is reached before anything is changed on one.

    Raises:
        NodeError: of the first node that fails, after all have been tried.
    """
    if shipment.code_digest() != job.code_digest:
        raise GangError(
            f"{shipment.benchmarks} has changed since {job.job_id} was planned: digest "
            f"{shipment.code_digest()[:12]}, planned with {job.code_digest[:12]}. Start a new run"
        )
    async with connections(job.nodes, targets, connect) as transports:
        await on_all(transport.home() for transport in transports.values())
        await on_all(
            _prepare_node(job, node.name, transports[node.name], shipment, on_event)
            for node in job.nodes
        )


async def _prepare_node(
    job: JobSpec, node: str, transport: Transport, shipment: Shipment, on_event: OnEvent
) -> None:
    policy = job.environments
    layout = await Layout.of(transport, policy)
    build = job.build
    wheels = [Path(build.location)] if build.source == "wheel" and build.location else []
    house = await _house(transport, job, shipment)
    shipped = await ship(transport, layout, shipment, policy.python, on_event, wheels, house)
    python = await provision(transport, layout, job, shipped, on_event)
    folder = layout.job(job, node)
    await transport.make_folders(folder)
    await transport.write_atomic(posixpath.join(folder, "python"), f"{python}\n".encode())
    document = json.dumps(job.to_json(), indent=1, sort_keys=True) + "\n"
    await transport.write_atomic(posixpath.join(folder, "job.json"), document.encode())


async def _house(transport: Transport, job: JobSpec, shipment: Shipment) -> list[Wheel] | None:
    """The wheels that the job's environment needs from the controller; None where it has an index.

    Raises:
        EnvironmentUnavailable: the wheelhouse lacks some, or holds other builds of them.
    """
    build = job.build
    if shipment.wheelhouse is None or build.source == "path":
        return None
    series, package, lock = line_of(shipment.benchmarks, build.line, build.variant)
    if not series:
        return None
    version = build.version if build.source == "index" else None
    wanted = wanted_by(lock, package, version, replaced=build.source == "wheel")
    machine = await machine_of(transport)
    try:
        return await asyncio.to_thread(choose, shipment.wheelhouse, wanted, series, machine)
    except GangError as error:
        raise EnvironmentUnavailable(transport.node, transport.address, str(error)) from error


async def provision(
    transport: Transport, layout: Layout, job: JobSpec, shipped: Shipped, on_event: OnEvent
) -> str:
    """The interpreter of the job's framework on a node; its environment is built when absent.

    Raises:
        EnvironmentUnavailable: it cannot be had there; the message says how to get it.
    """
    build, policy = job.build, job.environments
    # A prefix of the cluster's `paths` is a build of source "path": a version or a wheel that
    # somebody asks for is never replaced by what the site prepared.
    prefix = build.location if build.source == "path" else None
    if prefix is not None:
        python = posixpath.join(await expand(transport, prefix), "bin/python")
        if not await transport.exists(python):
            raise EnvironmentUnavailable(
                transport.node,
                transport.address,
                f"{build.line}: {python} is not there; the prefix is given as {prefix!r} in the "
                "suite's builds or the cluster's environments.paths",
            )
        return python
    arguments = ["--root", layout.root, "--line", build.line, "--variant", build.variant]
    if shipped.uv:
        arguments += ["--uv", shipped.uv]
    if policy.index_url:
        arguments += ["--index-url", policy.index_url]
    arguments += words("--find-links", policy.find_links)
    arguments += words("--wheel", shipped.wheels)
    if build.version and build.source == "index":
        arguments += ["--version", build.version]
    if shipped.wheelhouse is not None:
        # One folder for each wheel, named by its hash: the first switches the index off.
        first, *others = shipped.wheelhouse or (posixpath.join(layout.root, "wheels"),)
        arguments += ["--wheelhouse", first, *words("--find-links", others)]
    arguments += lock_words(policy)
    answer = await call_agent(
        transport,
        policy.python,
        posixpath.join(shipped.code, "agent.py"),
        "provision",
        *arguments,
        on_stderr=lambda line: on_event(GangEvent("provision", line, transport.node)),
        timeout_s=None,
    )
    if "unavailable" in answer:
        log = f" (log on the node: {answer['log']})" if answer.get("log") else ""
        raise EnvironmentUnavailable(
            transport.node,
            transport.address,
            f"{build.line} is unavailable: {answer['unavailable']}{log}. {answer.get('hint', '')}",
        )
    if "python" not in answer:
        raise RemoteFailure(transport.node, transport.address, f"provision answered {answer}")
    if answer.get("built"):
        on_event(
            GangEvent(
                "provision",
                f"{build.line} {build.variant}: built in {answer.get('seconds', 0):.0f} s",
                transport.node,
                data=answer,
            )
        )
    return str(answer["python"])


def lock_words(policy: EnvironmentPolicy) -> list[str]:
    """The option that names the folder of the node's lock, where the site has its own."""
    return ["--lock-dir", policy.lock_dir] if policy.lock_dir else []
