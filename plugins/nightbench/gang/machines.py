"""CPU architectures of nodes: a gang needs one, and its environment wheels for it."""

import json
from collections.abc import Mapping
from pathlib import Path

from nightbench.core.model import Cluster, JobSpec
from nightbench.core.model.catalog import MACHINES
from nightbench.gang.errors import EnvironmentUnavailable, MachinesDiffer
from nightbench.gang.node_access import connections, on_all
from nightbench.gang.transport import Target, Transport


async def machines_of_nodes(cluster: Cluster, targets: Mapping[str, Target]) -> dict[str, str]:
    """Return the CPU architecture of each node, as the node prints it.

    Raises:
        NodeError: a node does not answer.
    """
    async with connections(cluster.nodes, targets) as transports:
        found = await on_all(transport.machine() for transport in transports.values())
    return dict(zip(transports, found, strict=True))


async def refuse_other_machines(job: JobSpec, transports: Mapping[str, Transport]) -> None:
    """Reach all nodes of a gang, and compare their CPU architectures.

    Raises:
        MachinesDiffer: they are not one, or not the one that the cluster's file states.
    """
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


async def refuse_without_wheels(transport: Transport, job: JobSpec, benchmarks: Path) -> None:
    """Compare a node's CPU architecture with those that the job's lock has wheels for.

    Raises:
        EnvironmentUnavailable: the lock has none for it.
    """
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
