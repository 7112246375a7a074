"""The nodes of a run before its night: looked at, and judged.

    <spool>/runs/<run_id>/preflight/<node>.json    what was seen of a node
    <spool>/runs/<run_id>/preflight/cluster.json   what it means, who is left out, the controls

`node_events` counts what it says, `node_placement` acts on it. Workers, triggerers and the
ingest read the spool; only the counting needs the warehouse, and where that is away the ingest
does it later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime

from nightbench.core.model import Cluster, FrameworkInfo, HealthPolicy
from nightbench.core.sentences import sentences
from nightbench.gang import Shipment, SshTarget
from nightbench.gang.preflight import Network, preflight
from nightbench.gang.progress import OnEvent, ignore
from nightbench.nodes import (
    Control,
    Finding,
    FindingLevel,
    JudgedNode,
    NodePreflight,
    NodesOut,
    compare,
    controls_of,
    findings,
    nodes_out_from_json,
    nodes_out_to_json,
)
from nightbench.spool import RunSpool, read_json, write_json

SCHEMA = "nightbench.preflight-cluster/1"


@dataclasses.dataclass(frozen=True)
class ClusterHealth:
    """A cluster as it was found."""

    cluster: str
    at: datetime
    nodes: tuple[JudgedNode, ...]
    """In the order of the cluster's file."""
    between: tuple[Finding, ...] = ()
    """About nodes beside each other, and the network between them."""
    controls: tuple[Control, ...] = ()
    busy: tuple[str, ...] = ()
    """Nodes that somebody else was working on."""

    @property
    def counted(self) -> tuple[Control, ...]:
        """The controls that say something of a node: beside foreign work they tell of that."""
        return tuple(c for c in self.controls if not {*c.node.split("+")} & {*self.busy})

    @property
    def failed(self) -> bool:
        """Whether anything must be mended."""
        found = [f for node in self.nodes for f in node.findings]
        return any(f.level is FindingLevel.FAIL for f in (*found, *self.between))


# --- looking ------------------------------------------------------------------------------


async def examine(
    cluster: Cluster,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    lines: Sequence[FrameworkInfo] = (),
    *,
    controls: bool = False,
    sweep: bool = False,
    on_event: OnEvent = ignore,
) -> ClusterHealth:
    """Look at all nodes and judge them.

    Args:
        cluster: whose nodes.
        targets: how each is reached.
        shipment: the agent's code.
        lines: framework lines that are to run there.
        controls: take control measurements too.
        sweep: end orphans of ours first.
        on_event: hears what is done.
    """
    seen, network = await preflight(
        cluster, targets, shipment, controls=controls, sweep=sweep, on_event=on_event
    )
    return judge(cluster, seen, network, lines)


def judge(
    cluster: Cluster,
    seen: Sequence[NodePreflight],
    network: Network | None,
    lines: Sequence[FrameworkInfo] = (),
) -> ClusterHealth:
    """What the looks at a cluster's nodes mean."""
    nodes = tuple(JudgedNode(each, findings(each, cluster, lines)) for each in seen)
    controls = [c for each in seen for c in controls_of(each.node, each.document)]
    between = list(compare(seen))
    if network is not None and network.problem is not None:
        between.append(_no_network(network))
    if network is not None and network.control is not None:
        controls.append(network.control)
    return ClusterHealth(
        cluster=cluster.name,
        at=datetime.fromisoformat(max(each.at for each in seen)),
        nodes=nodes,
        between=tuple(between),
        controls=tuple(controls),
        busy=tuple(each.node for each in seen if _is_busy(each, cluster)),
    )


def _is_busy(seen: NodePreflight, cluster: Cluster) -> bool:
    if seen.document is None:
        return False
    share = seen.document["foreign"]["cpu_share"]
    return bool(seen.document["lock_holders"] or share > cluster.neighbours.cpu_share)


def _no_network(network: Network) -> Finding:
    return Finding(
        FindingLevel.FAIL,
        "network",
        str(network.problem),
        f"nodes reach each other ({', '.join(network.nodes)})",
        "frameworks listen on `port_range` at `data_address`: open these ports between the nodes "
        "in their firewalls, and name the right address in the cluster's YAML",
    )


# --- in the spool ---------------------------------------------------------------------------


def save(
    folder: RunSpool,
    health: ClusterHealth,
    policy: HealthPolicy,
    out: NodesOut,
) -> None:
    """Keep what was found before a run.

    Args:
        folder: the run.
        health: what was found.
        policy: the cluster's; faults are counted by it.
        out: the nodes that are left out.
    """
    place = folder.folder / "preflight"
    for node in health.nodes:
        write_json(place / f"{node.seen.node}.json", node.seen.to_json())
    write_json(
        place / "cluster.json",
        {
            "schema": SCHEMA,
            "cluster": health.cluster,
            "at": health.at.isoformat(),
            "policy": dataclasses.asdict(policy),
            "nodes": {
                node.seen.node: [finding.to_json() for finding in node.findings]
                for node in health.nodes
            },
            "between": [finding.to_json() for finding in health.between],
            "controls": [control.to_json() for control in health.controls],
            "busy": list(health.busy),
            "out": nodes_out_to_json(out),
        },
    )


@dataclasses.dataclass(frozen=True)
class RunHealth:
    """What the spool says of the nodes of a run."""

    health: ClusterHealth
    policy: HealthPolicy
    out: NodesOut


def read(folder: RunSpool) -> RunHealth | None:
    """What `save` kept; None where the run had no preflight."""
    place = folder.folder / "preflight"
    document = read_json(place / "cluster.json")
    if document is None or document.get("schema") != SCHEMA:
        return None
    nodes = tuple(
        JudgedNode(
            NodePreflight.from_json(read_json(place / f"{node}.json") or {}),
            tuple(map(Finding.from_json, told)),
        )
        for node, told in document["nodes"].items()
    )
    health = ClusterHealth(
        document["cluster"],
        datetime.fromisoformat(document["at"]),
        nodes,
        tuple(map(Finding.from_json, document["between"])),
        tuple(map(Control.from_json, document["controls"])),
        tuple(document["busy"]),
    )
    out = nodes_out_from_json(document["out"])
    return RunHealth(health, HealthPolicy(**document["policy"]), out)


def notes(folder: RunSpool) -> list[str]:
    """What the digest of a run says of its nodes: those left out, and what was found."""
    known = read(folder)
    if known is None:
        return []
    said = [sentences(why) for _, why in sorted(known.out.items())]
    for node in known.health.nodes:
        said += [
            f"{node.seen.node}: {f.title}: {f.found} (expected {f.expected})"
            for f in node.findings
            if f.level is FindingLevel.WARN
        ]
    said += [f"{f.title}: {f.found}" for f in known.health.between]
    return said
