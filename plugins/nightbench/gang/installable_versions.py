"""Versions of a line's main package that a node could install."""

from collections.abc import Iterable, Mapping
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from nightbench.core.model import Cluster, EnvironmentPolicy, Node
from nightbench.gang.errors import GangError
from nightbench.gang.node_access import connections, repeated_option
from nightbench.gang.progress import ignore
from nightbench.gang.shipping import Shipment, ship_agent
from nightbench.gang.transport import Target
from nightbench.gang.wheels import accepts_tag, line_of

VERSIONS_TIMEOUT_S = 180.0
"""For the indexes that a node asks which versions there are."""


async def installable_versions(
    cluster: Cluster,
    node: Node,
    targets: Mapping[str, Target],
    shipment: Shipment,
    line: str,
    variant: str,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the versions of a line's main package that a node could install, and problems.

    They ascend, as packages' metadata writes them, without their local part (`+cpu`). Problems are
    sources that did not answer. The node is asked for the wheels that its sources hold, since it is
    the node that installs. Nodes without an index get wheels from the controller's wheelhouse, and
    then that folder is the answer. Whether a version really installs is seen only when it is tried.

    Raises:
        NodeError: the node cannot be asked.
        GangError: the line has no environment of its own, so it has no versions.
    """
    pythons, package, _ = line_of(shipment.benchmarks, line, variant)
    if not pythons:
        raise GangError(f"{line} has no own environment, so there are no versions to install")
    async with connections([node], targets) as transports:
        transport = transports[node.name]
        await transport.home()
        machine = await transport.machine()
        if shipment.wheelhouse is not None:
            files = [{"name": path.name} for path in shipment.wheelhouse.glob("*.whl")]
            return versions_of(files, package, pythons, machine), ()
        policy = cluster.environments
        agent = await ship_agent(transport, policy, shipment, ignore)
        options = ["--root", agent.layout.root, "--line", line, "--variant", variant]
        options += source_options(policy)
        answer = await agent.call("versions", *options, timeout_s=VERSIONS_TIMEOUT_S)
    versions = versions_of(answer["files"], package, answer["pythons"], machine)
    return versions, tuple(answer["problems"])


def versions_of(
    files: Iterable[Mapping[str, Any]], package: str, pythons: Iterable[str], machine: str
) -> tuple[str, ...]:
    """Return the versions of a package whose wheels run on a machine with one of some Pythons.

    They ascend.

    A file is a wheel as simple indexes list it: name and, if known, requires_python and yanked.
    The architecture is as `uname -m` prints it.
    """
    found: set[Version] = set()
    for file in files:
        try:
            name, version, _, tags = parse_wheel_filename(file["name"])
        except InvalidWheelFilename:
            continue
        if name != canonicalize_name(package) or file.get("yanked"):
            continue
        if any(
            _accepts(file.get("requires_python"), series) and accepts_tag(tag, series, machine)
            for series in pythons
            for tag in tags
        ):
            found.add(Version(version.public))
    return tuple(str(version) for version in sorted(found))


def _accepts(requires: str | None, series: str) -> bool:
    """Tell whether a file accepts some interpreter of the series (true if it is unreadable)."""
    try:
        return SpecifierSet(requires or "").contains(f"{series}.99")
    except InvalidSpecifier:
        return True


def source_options(policy: EnvironmentPolicy) -> list[str]:
    """Return the options of the agent's verbs for the index and the folders of a cluster."""
    index = ["--index-url", policy.index_url] if policy.index_url else []
    return [*index, *repeated_option("--find-links", policy.find_links)]
