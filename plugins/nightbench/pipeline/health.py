"""The nodes of a run before its night: looked at, judged, and booked. `placing` acts on it.

    <spool>/runs/<run_id>/preflight/<node>.json    what was seen of a node
    <spool>/runs/<run_id>/preflight/cluster.json   what it means, who is left out, the controls

Workers, triggerers and the ingest read the spool; only `book` needs the warehouse, and where that
is away the ingest does it later.
"""

from __future__ import annotations

import dataclasses
import getpass
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from nightbench.errors import UserError
from nightbench.gang import Shipment, SshTarget
from nightbench.gang.events import OnEvent, ignore
from nightbench.gang.preflight import Network, preflight
from nightbench.health import (
    Control,
    Finding,
    JudgedNode,
    Level,
    NodeEvent,
    NodePreflight,
    NodeState,
    compare,
    controls_of,
    findings,
    standing,
)
from nightbench.health.quarantine import CLEAN, FAULT, PERSON, PREFLIGHT, WORKED
from nightbench.model import CaseStatus, Cluster, FrameworkInfo, HealthPolicy
from nightbench.spool import CaseStore, RunSpool, read_json, write_json
from nightbench.warehouse import NodeBook
from nightbench.warehouse.connection import Connection

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
        return any(f.level is Level.FAIL for f in (*found, *self.between))


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
        Level.FAIL,
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
    out: Mapping[str, str],
) -> None:
    """Keep what was found before a run.

    Args:
        folder: the run.
        health: what was found.
        policy: the cluster's; faults are counted by it.
        out: node -> why it is left out.
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
            "out": dict(out),
        },
    )


@dataclasses.dataclass(frozen=True)
class RunHealth:
    """What the spool says of the nodes of a run."""

    health: ClusterHealth
    policy: HealthPolicy
    out: Mapping[str, str]
    """Node -> why it was left out."""


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
    return RunHealth(health, HealthPolicy(**document["policy"]), document["out"])


def notes(folder: RunSpool) -> list[str]:
    """What the digest of a run says of its nodes: those left out, and what was found."""
    known = read(folder)
    if known is None:
        return []
    said = [f"{node} was left out: {reason}" for node, reason in sorted(known.out.items())]
    for node in known.health.nodes:
        said += [
            f"{node.seen.node}: {f.what}: {f.found} (expected {f.expected})"
            for f in node.findings
            if f.level is Level.WARN
        ]
    said += [f"{f.what}: {f.found}" for f in known.health.between]
    return said


# --- in the warehouse -----------------------------------------------------------------------


def book(
    connection: Connection, run_id: str, health: ClusterHealth, policy: HealthPolicy
) -> dict[str, NodeState]:
    """Store a preflight and count what it says; returns where the nodes stand now.

    Raises:
        WarehouseUnavailable: nothing was stored; `book_run` does it later.
    """
    keeper = NodeBook(connection)
    keeper.store_looks(health.cluster, run_id, health.nodes, health.counted, health.at)
    return keeper.count(health.cluster, list(_looked(health, run_id)), policy)


def book_run(connection: Connection, folder: RunSpool, cluster: str) -> dict[str, NodeState]:
    """Store what a whole run says of its nodes: its preflight and how its cases ended there."""
    known = read(folder)
    events = list(_cases(folder, cluster))
    keeper = NodeBook(connection)
    if known is None:
        return keeper.count(cluster, events, HealthPolicy()) if events else {}
    health = known.health
    keeper.store_looks(cluster, folder.run_id, health.nodes, health.counted, health.at)
    return keeper.count(cluster, [*_looked(health, folder.run_id), *events], known.policy)


def decide(
    connection: Connection, cluster: Cluster, node: str, kind: str, reason: str, by: str = ""
) -> NodeState:
    """Put a node into quarantine, or let it out, in a person's name.

    Args:
        connection: to the warehouse.
        cluster: the node's.
        node: its name.
        kind: `quarantined` or `released`.
        reason: shown wherever the node is.
        by: who says so; the user of this process when empty.

    Raises:
        UserError: the cluster has no such node, or the warehouse is away.
    """
    names = [each.name for each in cluster.nodes]
    if node not in names:
        raise UserError(f'node: found "{node}"; expected one of {", ".join(names)}')
    event = NodeEvent(
        cluster=cluster.name,
        node=node,
        at=datetime.now(UTC),
        kind=kind,
        reason=reason,
        by_whom=by or getpass.getuser(),
        subject=PERSON,
    )
    return NodeBook(connection).count(cluster.name, [event], cluster.health)[node]


def out_by_now(folder: RunSpool, cluster: str) -> dict[str, str]:
    """Node -> why it takes no part any more: since the preflight, or since what ran tonight.

    It needs the spool alone: a worker asks before each case, so that a node that dies at midnight
    does not cost every later case its time limits.
    """
    known = read(folder)
    events = list(_cases(folder, cluster))
    if known is not None:
        events += _looked(known.health, folder.run_id)
    policy = known.policy if known else HealthPolicy()
    tonight = {
        node: state.reason
        for node in sorted({event.node for event in events})
        if (
            state := standing(cluster, node, [e for e in events if e.node == node], policy)
        ).quarantined
    }
    return {**tonight, **(known.out if known else {})}


def _looked(health: ClusterHealth, run_id: str) -> Iterator[NodeEvent]:
    for node in health.nodes:
        fault = node.fault
        yield NodeEvent(
            cluster=health.cluster,
            node=node.seen.node,
            at=datetime.fromisoformat(node.seen.at),
            kind=FAULT if fault else CLEAN,
            reason=f"preflight: {fault}" if fault else "a clean preflight",
            run_id=run_id,
            subject=PREFLIGHT,
        )


def _cases(folder: RunSpool, cluster: str) -> Iterator[NodeEvent]:
    for case_id in folder.case_ids():
        for generation in folder.generations(case_id):
            store = folder.case(case_id, generation)
            yield from _case(store, folder.run_id, cluster, f"{case_id}/g{generation}")


def _case(store: CaseStore, run_id: str, cluster: str, subject: str) -> Iterator[NodeEvent]:
    """What the end of a case says of its nodes: a failure of the framework says nothing."""
    outcome, job = store.outcome(), store.job()
    if outcome is None:
        return
    told: dict[str, tuple[str, str]] = {}
    if outcome["status"] == CaseStatus.OK and job is not None:
        told = {node["name"]: (WORKED, "") for node in job["nodes"]}
    for node, said in (outcome.get("nodes") or {}).items():
        if said.get("fault"):
            told[node] = (FAULT, f"{subject.rpartition('/')[0]}: {said['fault']}")
    for node, (kind, reason) in told.items():
        yield NodeEvent(
            cluster=cluster,
            node=node,
            at=datetime.fromisoformat(outcome["ended_at"]),
            kind=kind,
            reason=reason,
            run_id=run_id,
            subject=subject,
        )
