"""Which versions of a framework line a cluster's nodes could install.

A node is asked for the wheels that its own sources hold, since it is the node that installs; nodes
without an index get wheels from the controller's wheelhouse, and then that folder is the answer.
Whether a version really installs is seen only when it is tried.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from nightbench.core.model import Cluster, Node
from nightbench.gang.agentcall import call_agent, words
from nightbench.gang.errors import GangError
from nightbench.gang.events import OnEvent, ignore
from nightbench.gang.layout import Layout
from nightbench.gang.login import SshTarget
from nightbench.gang.pool import shared
from nightbench.gang.provisioning import Connect, connections
from nightbench.gang.shipment import Shipment
from nightbench.gang.shipping import machine_of, ship_code
from nightbench.gang.wheelhouse import line_of, runs_there

LIST_S = 180.0


@dataclass(frozen=True)
class Offered:
    """What could be installed."""

    versions: tuple[str, ...]
    """Ascending, as packages' metadata writes them, without their local part (`+cpu`)."""
    sources: tuple[str, ...]
    """What was asked."""
    problems: tuple[str, ...] = ()
    """Sources that did not answer."""


async def installable(
    cluster: Cluster,
    node: Node,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    line: str,
    variant: str,
    on_event: OnEvent = ignore,
    connect: Connect = shared,
) -> Offered:
    """Ask which versions of a line's main package a node could install.

    Args:
        cluster: says where environments come from.
        node: whose sources are asked.
        targets: how it is reached.
        shipment: the agent's code, and the wheelhouse where the cluster has one.
        line: framework line.
        variant: of its lock.
        on_event: hears what is done.
        connect: makes a transport to a target.

    Raises:
        NodeError: the node cannot be asked.
        GangError: the line has no environment of its own, so it has no versions.
    """
    series, package, _ = line_of(shipment.benchmarks, line, variant)
    if not series:
        raise GangError(f"{line} has no environment of its own, and so no versions to install")
    async with connections([node], targets, connect) as transports:
        transport = transports[node.name]
        await transport.home()
        machine = await machine_of(transport)
        if shipment.wheelhouse is not None:
            files = [{"name": path.name} for path in shipment.wheelhouse.glob("*.whl")]
            found = versions_of(files, package, series, machine)
            return Offered(found, (str(shipment.wheelhouse),))
        policy = cluster.environments
        layout = await Layout.of(transport, policy)
        code = await ship_code(transport, layout, shipment, policy.python, on_event)
        asked = ["--line", line, "--variant", variant]
        if policy.index_url:
            asked += ["--index-url", policy.index_url]
        asked += words("--find-links", policy.find_links)
        agent = posixpath.join(code, "agent.py")
        answer = await call_agent(
            transport, policy.python, agent, "versions", *asked, timeout_s=LIST_S
        )
    return Offered(
        versions_of(answer["files"], package, series, machine),
        tuple(answer["sources"]),
        tuple(answer["problems"]),
    )


def versions_of(
    files: Iterable[Mapping[str, Any]], package: str, series: str, machine: str
) -> tuple[str, ...]:
    """The versions of a package whose wheels run on a machine, ascending.

    Args:
        files: wheels, as simple indexes tell of them: name, and where known requires_python and
            yanked.
        package: the wanted one.
        series: of the interpreter, "3.11".
        machine: as `uname -m` says it.
    """
    found: set[Version] = set()
    for file in files:
        try:
            name, version, _, tags = parse_wheel_filename(file["name"])
        except InvalidWheelFilename:
            continue
        if name != canonicalize_name(package) or file.get("yanked"):
            continue
        if _takes(file.get("requires_python"), series) and any(
            runs_there(tag, series, machine) for tag in tags
        ):
            found.add(Version(version.public))
    return tuple(str(version) for version in sorted(found))


def _takes(requires: str | None, series: str) -> bool:
    """Whether a file takes some interpreter of the series; nonsense forbids nothing."""
    try:
        return SpecifierSet(requires or "").contains(f"{series}.99")
    except InvalidSpecifier:
        return True
