"""Examines and judges the nodes of a cluster, and stores the result with the run.

    <spool>/runs/<run_id>/preflight/<node>.json    the preflight of a node
    <spool>/runs/<run_id>/preflight/cluster.json   findings, nodes that are left out, controls

`node_events` counts the faults, `node_placement` moves cases. Workers, triggerers and the ingest
read the spool; only the counting needs the warehouse, and the ingest makes up for it later.
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
    """The examined nodes of a cluster with all findings."""

    cluster: str
    at: datetime
    nodes: tuple[JudgedNode, ...]
    """In the order of the cluster's file."""
    between: tuple[Finding, ...] = ()
    """Findings about differences between nodes, and about the network."""
    controls: tuple[Control, ...] = ()
    busy: tuple[str, ...] = ()
    """Nodes with foreign work."""

    @property
    def valid_controls(self) -> tuple[Control, ...]:
        """The controls of nodes without foreign work, which would distort them."""
        return tuple(c for c in self.controls if not {*c.node.split("+")} & {*self.busy})

    @property
    def failed(self) -> bool:
        """True where a finding is a failure."""
        found = [f for node in self.nodes for f in node.findings]
        return any(f.level is FindingLevel.FAIL for f in (*found, *self.between))


# --- examining ------------------------------------------------------------------------------


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
    """Examine all nodes and judge them.

    Args:
        cluster: the cluster.
        targets: node -> how it is reached.
        shipment: the agent's code.
        lines: framework lines that are to run there.
        controls: take control measurements too.
        sweep: end orphaned processes of Nightbench first.
        on_event: gets progress events.
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
    """Judge the preflights of a cluster's nodes."""
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
    """Store the preflight of a run.

    Args:
        folder: the run.
        health: the result.
        policy: of the cluster, for counting faults.
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
    """The preflight of a run, as the spool holds it."""

    health: ClusterHealth
    policy: HealthPolicy
    out: NodesOut


def read(folder: RunSpool) -> RunHealth | None:
    """Return what `save` stored; None where the run had no preflight."""
    place = folder.folder / "preflight"
    document = read_json(place / "cluster.json")
    if document is None or document.get("schema") != SCHEMA:
        return None
    nodes = tuple(
        JudgedNode(
            NodePreflight.from_json(read_json(place / f"{node}.json") or {}),
            tuple(map(Finding.from_json, listed)),
        )
        for node, listed in document["nodes"].items()
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
    """Return lines about the nodes for a run's digest: those left out, and warnings."""
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
