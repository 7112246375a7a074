"""Preparing nodes: code, tools, environments, job files."""

import asyncio
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightbench.core.model import Cluster, JobSpec, reasons_from_json
from nightbench.core.model.catalog import MACHINES
from nightbench.gang.errors import (
    Cancelled,
    EnvironmentUnavailable,
    GangError,
    MachinesDiffer,
    RemoteFailure,
)
from nightbench.gang.installable_versions import source_options
from nightbench.gang.node_access import Agent, connections, on_all, repeated_option
from nightbench.gang.pods import delete_pods_of, pods_of
from nightbench.gang.process import OnLine
from nightbench.gang.progress import GangEvent, OnEvent, ignore
from nightbench.gang.shipping import Shipment, Shipped, ship, ship_agent
from nightbench.gang.transport import Target, Transport
from nightbench.gang.wheels import Wheel, choose_wheels, line_of, packages_of
from nightbench.spool import CaseStore

OUTCOME_POLL_S = 1.0
"""Interval at which a case that is prepared is checked for an outcome."""


async def prepare(
    job: JobSpec,
    targets: Mapping[str, Target],
    shipment: Shipment,
    on_event: OnEvent = ignore,
    store: CaseStore | None = None,
    *,
    replacing: bool = False,
) -> None:
    """Prepare the gang's nodes for `run_gang`; doing it again costs little.

    Every node is reached before anything is changed on one. `cancel` writes the case's outcome
    into `store`, which ends uploads and builds. If this is cancelled its pods are deleted, except
    when `replacing` some of a gang: the next controller uses them.

    Raises:
        NodeError: the first node that failed, after all have been tried.
        Cancelled: the case has an outcome.
    """
    preparing = asyncio.create_task(_prepare(job, targets, shipment, on_event))
    try:
        while store is not None and not preparing.done():
            await _raise_if_cancelled(store)
            await asyncio.wait([preparing], timeout=OUTCOME_POLL_S)
        try:
            await preparing
        except GangError:
            # `cancel` ends builds on the nodes, too: that is no failure of theirs.
            if store is not None:
                await _raise_if_cancelled(store)
            raise
    except asyncio.CancelledError:
        await _end(preparing)
        if not replacing:
            await asyncio.shield(delete_pods_of(job, targets, on_event))
        raise
    finally:
        await _end(preparing)


async def _end(preparing: asyncio.Task[None]) -> None:
    # Cancelled, it closes its connections; a build ends when its channel is closed.
    preparing.cancel()
    await asyncio.gather(preparing, return_exceptions=True)


async def _raise_if_cancelled(store: CaseStore) -> None:
    outcome = await asyncio.to_thread(store.outcome)
    if outcome is not None:
        raise Cancelled(reasons_from_json(outcome["reasons"]))


async def _prepare(
    job: JobSpec,
    targets: Mapping[str, Target],
    shipment: Shipment,
    on_event: OnEvent,
) -> None:
    if shipment.code_digest() != job.code_digest:
        raise GangError(
            f"{shipment.benchmarks} has changed since {job.job_id} was planned: digest "
            f"{shipment.code_digest()[:12]}, planned with {job.code_digest[:12]}. Start a new run"
        )
    pods = pods_of(job, targets, on_event)
    if pods is None:
        await _prepare_nodes(job, targets, shipment, on_event)
        return
    job = await pods.create()
    async with pods.deleted_on_error():
        await _prepare_nodes(job, targets, shipment, on_event)


async def _prepare_nodes(
    job: JobSpec, targets: Mapping[str, Target], shipment: Shipment, on_event: OnEvent
) -> None:
    async with connections(job.nodes, targets, job.job_id) as transports:
        await _refuse_other_machines(job, transports)
        found = await _environments(job, transports, shipment, on_event)
        await on_all(
            _write_job(job, node.name, found[node.name], transports[node.name])
            for node in job.nodes
        )


async def build_environment(
    job: JobSpec, targets: Mapping[str, Target], shipment: Shipment
) -> None:
    """Build the environment of a job on all its nodes, so that `prepare` finds it.

    Raises:
        NodeError: the first node that failed, after all have been tried.
    """
    async with connections(job.nodes, targets, job.job_id) as transports:
        await _refuse_other_machines(job, transports)
        await _environments(job, transports, shipment, ignore)


@dataclass(frozen=True)
class _Environment:
    """The interpreter of a job's framework on a node."""

    agent: Agent
    interpreter: str
    python: str | None
    """Its series; None if the node builds no environment."""
    pythons: tuple[str, ...]
    """Series of the lock that run on the node, the newest first."""


async def _environments(
    job: JobSpec,
    transports: Mapping[str, Transport],
    shipment: Shipment,
    on_event: OnEvent,
) -> dict[str, _Environment]:
    """Build or find the environment on all nodes of a gang, with one Python on all of them.

    Each node takes its newest. If they differ, all take the newest that each of them has, else
    one that uv downloads on those without it.
    """

    async def on_each(python: str | None = None) -> dict[str, _Environment]:
        work = (_environment_on(each, job, shipment, on_event, python) for each in nodes)
        return dict(zip(transports, await on_all(work), strict=True))

    nodes = list(transports.values())
    found = await on_each()
    if len({each.python for each in found.values()}) == 1:
        return found
    having = [each.pythons for each in found.values()]
    everywhere = [series for series in having[0] if all(series in each for each in having)]
    somewhere = {each.python: None for each in found.values() if each.python not in everywhere}
    for python in (*everywhere, *somewhere):
        try:
            return await on_each(python)
        except EnvironmentUnavailable as error:
            on_event(GangEvent("provision", f"no environment with Python {python}: {error}"))
    seen = "; ".join(f"{name}: {', '.join(each.pythons)}" for name, each in found.items())
    raise EnvironmentUnavailable.of(
        nodes[0],
        f"{job.build.line} is unavailable: the nodes of the gang have no common Python that its "
        f"lock supports ({seen}). Install a common Python on all nodes",
    )


async def _environment_on(
    transport: Transport,
    job: JobSpec,
    shipment: Shipment,
    on_event: OnEvent,
    python: str | None = None,
) -> _Environment:
    """Ship what a job's environment needs; build or find it, with a series of Python if given."""
    build = job.build
    wheel = Path(build.location) if build.source == "wheel" and build.location else None
    locked, builds = None, build.source not in ("path", "image")
    if builds:  # a line without Pythons has no environment
        builds = bool(line_of(shipment.benchmarks, build.line, build.variant)[0])
    if builds:
        await _refuse_without_wheels(transport, job, shipment.benchmarks)
        python, locked = await _wheels_to_ship(transport, job, shipment, python)
    policy = job.environments
    shipped = await ship(transport, policy, shipment, on_event, wheel, locked, with_uv=builds)
    return await _provision(job, shipped, on_event, python)


async def _write_job(
    job: JobSpec, node: str, environment: _Environment, transport: Transport
) -> None:
    folder = environment.agent.layout.job(job, node)
    await transport.make_folders(folder)
    interpreter = f"{environment.interpreter}\n".encode()
    await transport.write_atomic(posixpath.join(folder, "python"), interpreter)
    document = json.dumps(job.to_json(), indent=1, sort_keys=True) + "\n"
    await transport.write_atomic(posixpath.join(folder, "job.json"), document.encode())


async def _wheels_to_ship(
    transport: Transport, job: JobSpec, shipment: Shipment, python: str | None
) -> tuple[str | None, list[Wheel] | None]:
    """Return a Python and the wheels that the controller has to ship to a node without an index.

    It is the newest on the node for which the wheelhouse is complete, unless `python` is given.
    """
    if shipment.wheelhouse is None:
        return python, None
    build = job.build
    supported, package, lock = line_of(shipment.benchmarks, build.line, build.variant)
    version = build.version if build.source == "index" else None
    packages = packages_of(lock, package, version, replaced=build.source == "wheel")
    machine = await transport.machine()
    candidates = [python] if python else list(supported)
    if len(candidates) > 1:
        agent = await ship_agent(transport, job.environments, shipment, ignore)
        words = ["--line", build.line, "--variant", build.variant, "--ask"]
        mark = agent.mark(job.job_id)
        answer = await agent.call("provision", *agent.where, *words, env=mark)
        candidates = answer.get("pythons") or candidates[::-1]
    problems = []
    for series in candidates:
        try:
            choice = shipment.wheelhouse, packages, series, machine
            return series, await asyncio.to_thread(choose_wheels, *choice)
        except GangError as error:
            problems.append(error)
    raise EnvironmentUnavailable.of(transport, str(problems[0])) from problems[0]


async def _provision(
    job: JobSpec, shipped: Shipped, on_event: OnEvent, python: str | None
) -> _Environment:
    """Return the interpreter of the job's framework on a node, building the environment if absent.

    `python` is the series of the environment; the newest that the node has if it is not given.
    """
    build, transport = job.build, shipped.agent.transport
    # A prefix of the cluster's `paths` is a build of source "path": a version or a wheel that a
    # person asks for is never replaced by what the site prepared.
    if build.source == "path" and build.location is not None:
        answer = await _ask(job, shipped, "prefix", ["--path", build.location])
        if "problem" in answer:
            raise EnvironmentUnavailable.of(
                transport,
                f"{build.line}: {answer['problem']}; the prefix is {build.location!r} in the "
                "suite's builds or the cluster's environments.paths",
            )
        return _Environment(shipped.agent, str(answer["python"]), None, ())
    if build.source == "image":
        answer = await _ask(job, shipped, "image", _image_options(job, shipped))
        done = f"{build.line}: pulled {build.location}"
    else:
        answer = await _ask(
            job,
            shipped,
            "provision",
            [*_build_options(job, shipped), *(["--series", python] if python else [])],
            lambda line: on_event(GangEvent("provision", line, transport.node)),
        )
        done = f"{build.line} {build.variant}: built in {answer.get('seconds', 0):.0f} s"
    if "python" not in answer:
        raise RemoteFailure.of(transport, f"provision answered {answer}")
    if answer.get("built"):
        on_event(GangEvent("provision", done, transport.node))
    series, here = answer.get("series"), tuple(answer.get("pythons", ()))
    return _Environment(shipped.agent, str(answer["python"]), series, here)


async def _ask(
    job: JobSpec,
    shipped: Shipped,
    verb: str,
    words: Sequence[str],
    on_stderr: OnLine | None = None,
) -> dict[str, Any]:
    agent, line = shipped.agent, job.build.line
    mark = agent.mark(job.job_id)
    answer = await agent.call(verb, *words, env=mark, on_stderr=on_stderr, timeout_s=None)
    if "unavailable" in answer:
        log = f" (log on the node: {answer['log']})" if answer.get("log") else ""
        why = f"{line} is unavailable: {answer['unavailable']}{log}. {answer.get('hint', '')}"
        raise EnvironmentUnavailable.of(agent.transport, why)
    return answer


def _build_options(job: JobSpec, shipped: Shipped) -> list[str]:
    build = job.build
    words = [*shipped.agent.where, "--line", build.line, "--variant", build.variant]
    words += source_options(job.environments)
    if shipped.uv:
        words += ["--uv", shipped.uv]
    if shipped.wheel:
        words += ["--wheel", shipped.wheel]
    if build.version and build.source == "index":
        words += ["--version", build.version]
    if shipped.wheelhouse is not None:
        # One folder for each wheel, named by its hash: the first switches the index off.
        none = posixpath.join(shipped.agent.layout.root, "wheels")
        first, *others = shipped.wheelhouse or (none,)
        words += ["--wheelhouse", first, *repeated_option("--find-links", others)]
    return words


def _image_options(job: JobSpec, shipped: Shipped) -> list[str]:
    policy, layout = job.environments, shipped.agent.layout
    words = ["--root", layout.root, *layout.job_root_option]
    words += ["--line", job.build.line, "--image", job.build.location or ""]
    words += ["--engine", policy.engine, "--interpreter", policy.image_python]
    words += [f"--option={option}" for option in policy.engine_options]
    return [*words, *(f"--mount={folder}" for folder in policy.mounts)]


# --- CPU architectures: a gang needs one, and its environment wheels for it -------------------


async def machines_of_nodes(cluster: Cluster, targets: Mapping[str, Target]) -> dict[str, str]:
    """Return the CPU architecture of each node, as the node prints it.

    Raises:
        NodeError: a node does not answer.
    """
    async with connections(cluster.nodes, targets) as transports:
        found = await on_all(transport.machine() for transport in transports.values())
    return dict(zip(transports, found, strict=True))


async def _refuse_other_machines(job: JobSpec, transports: Mapping[str, Transport]) -> None:
    # Reaches all nodes of the gang.
    found = await on_all(transports[node.name].machine() for node in job.nodes)
    for node, machine in zip(job.nodes, found, strict=True):
        if node.machine not in (None, machine):
            raise MachinesDiffer.of(
                transports[node.name],
                f"found {machine}; the file of cluster {job.cluster} states `machine: "
                f"{node.machine}`: correct the file",
            )
        if machine != found[0]:
            raise MachinesDiffer.of(
                transports[node.name],
                f"found {machine}, but {job.nodes[0].name} is {found[0]}: a gang needs nodes of "
                "one CPU architecture. Set `machine` for all nodes in the file of cluster "
                f"{job.cluster}; each gang is then placed on nodes of one architecture",
            )


async def _refuse_without_wheels(transport: Transport, job: JobSpec, benchmarks: Path) -> None:
    build, machine = job.build, await transport.machine()
    text = (benchmarks / "frameworks" / build.line / "framework.json").read_text(encoding="utf-8")
    able = json.loads(text)["variants"][build.variant].get("machines", MACHINES)
    if machine not in able:
        raise EnvironmentUnavailable.of(
            transport,
            f"{build.line} is unavailable: its lock for {build.variant} has wheels for "
            f"{', '.join(able)}, but the node is {machine}. Prepare an environment on the node "
            "(`environments.paths`) or an image (`environments.images`), or run the case on "
            "other nodes",
        )
