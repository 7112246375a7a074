"""On which nodes, and on which of their devices, a case is measured. Pure."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from nightbench.core.errors import UserError
from nightbench.core.model import Case, Cluster, Node, Process, Role, digest_of


class TooFewNodes(UserError):
    """Too few nodes of a cluster take part for a case that it is large enough for."""


def place(
    case: Case, cluster: Cluster, roles: Sequence[Role], without: Collection[str] = ()
) -> tuple[tuple[Node, ...], tuple[Process, ...]]:
    """Choose the nodes of a gang and spread its processes over them.

    Returns:
        The nodes, see `nodes_for`, and the processes in the order of their roles.

    Raises:
        TooFewNodes: without those there are too few.
        UserError: the cluster is too small, or a node has too few GPUs.
    """
    nodes = nodes_for(case, cluster, without)
    processes: list[Process] = []
    computing: Counter[str] = Counter()
    for role in roles:
        on_node: Counter[str] = Counter()
        count = role.count if isinstance(role.count, int) else int(getattr(case, role.count))
        for rank in range(count):
            turn = {"spread": rank, "fill": rank // case.devices_per_node, "lead": 0}[role.place]
            node = nodes[turn % len(nodes)]
            local = on_node[node.name]
            on_node[node.name] += 1
            device = None
            computes = role.measured if role.device is None else role.device
            if computes and cluster.device_kind != "cpu":
                devices = _devices(node, cluster)
                if computing[node.name] == len(devices):
                    raise UserError(
                        f"{case.case_id} has more processes that compute than the {len(devices)} "
                        f"devices of {node.name}: choose fewer processes, or more devices"
                    )
                device = devices[computing[node.name]]
                computing[node.name] += 1
            name = f"{role.name}-{rank}"
            among = {"first": rank == 0, "last": rank == count - 1, "all": True}
            measured = role.measured and among[role.measured_ranks]
            processes.append(Process(name, role.name, rank, node.name, local, device, measured))
    return nodes, tuple(processes)


def moved(
    processes: Iterable[Process], before: Sequence[Node], after: Sequence[Node], cluster: Cluster
) -> tuple[Process, ...]:
    """Put the processes of a gang on other nodes, each on the device of the same position."""
    nodes = {old.name: (old, new) for old, new in zip(before, after, strict=True)}

    def move(process: Process) -> Process:
        old, new = nodes[process.node]
        device = process.device
        if device is not None:
            device = _devices(new, cluster)[_devices(old, cluster).index(device)]
        return dataclasses.replace(process, node=new.name, device=device)

    return tuple(map(move, processes))


def nodes_for(case: Case, cluster: Cluster, without: Collection[str] = ()) -> tuple[Node, ...]:
    """Choose the nodes of a gang: the same case gets the same ones, as long as they take part.

    If cases go one after another these are the cluster's first nodes, in the order of its file.
    If several are measured at once, each case has a block of neighbouring nodes (and devices,
    if only these are locked) of its own, by a digest of its name.

    Returns:
        The nodes, lead first; with `lock: devices` each with the devices (or cores) of this case.

    If the cluster's file states the CPU architectures, all are of one: of the first in the file
    that has enough nodes, whichever of them take part.

    Raises:
        TooFewNodes: without those that take no part there are too few.
        UserError: the cluster is too small.
    """
    if case.nodes > len(cluster.nodes) or case.devices_per_node > cluster.devices_per_node:
        raise UserError(
            f"{case.case_id} needs {case.nodes} x {case.devices_per_node} (nodes x devices); "
            f"cluster {cluster.name} has {len(cluster.nodes)} x {cluster.devices_per_node}: "
            "choose another cluster or fewer devices"
        )
    cluster = of_one_machine(case, cluster)
    there = [node for node in cluster.nodes if node.name not in without]
    if len(there) < case.nodes:
        kind = f"{cluster.nodes[0].machine or ''} nodes".lstrip()
        raise TooFewNodes(
            f"{case.case_id} needs {case.nodes} of the {len(cluster.nodes)} {kind} of cluster "
            f"{cluster.name}, and {', '.join(sorted(without))} are left out"
        )
    first = tuple(there[: case.nodes])
    if cluster.parallel_cases == 1:
        return tuple(_share(case, cluster, node, 0) for node in first)
    size = case.nodes
    blocks = [
        cluster.nodes[start : start + size]
        for start in range(0, len(cluster.nodes) - size + 1, size)
    ]
    slots = cluster.devices_per_node // case.devices_per_node if cluster.lock == "devices" else 1
    # The seat with the highest digest: adding or removing a node moves no other case.
    seats = [(block, slot) for block in blocks for slot in range(slots)]
    seats = [(block, slot) for block, slot in seats if not {n.name for n in block} & {*without}]
    block, slot = max(
        seats or [(first, slot) for slot in range(slots)],
        key=lambda seat: digest_of([case.case_id, [n.name for n in seat[0]], seat[1]]),
    )
    return tuple(_share(case, cluster, node, slot) for node in block)


def of_one_machine(case: Case, cluster: Cluster) -> Cluster:
    """Return the cluster with nodes of one CPU architecture; unchanged if none has enough."""
    kinds = dict.fromkeys(node.machine for node in cluster.nodes)
    alike = (tuple(n for n in cluster.nodes if n.machine == kind) for kind in kinds)
    enough = (nodes for nodes in alike if len(nodes) >= case.nodes)
    return dataclasses.replace(cluster, nodes=next(enough, cluster.nodes))


def _share(case: Case, cluster: Cluster, node: Node, slot: int) -> Node:
    """A node with the devices, or the cores of a CPU node, that a case locks of it."""
    if cluster.lock != "devices":
        return node
    mine = slice(slot * case.devices_per_node, (slot + 1) * case.devices_per_node)
    if cluster.device_kind != "cpu":
        return dataclasses.replace(node, devices=_devices(node, cluster)[mine])
    if case.devices_per_node == cluster.devices_per_node:
        return node
    # Groups of equal size; remaining cores belong to no group.
    group = len(node.cpus) // cluster.devices_per_node
    return dataclasses.replace(node, cpus=node.cpus[mine.start * group : mine.stop * group])


def resources_of(nodes: Iterable[Node], lock: str) -> frozenset[str]:
    """Name what a gang has for itself: its nodes, or devices (cores of CPU nodes) of them."""
    if lock != "devices":
        return frozenset(node.name for node in nodes)
    return frozenset(
        f"{node.name}/{device}" for node in nodes for device in (node.devices or node.cpus)
    )


def _devices(node: Node, cluster: Cluster) -> tuple[str, ...]:
    return node.devices or tuple(map(str, range(cluster.devices_per_node)))
