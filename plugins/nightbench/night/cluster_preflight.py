"""Examines and judges the nodes of a cluster, and stores the result with the run.

    <spool>/runs/<run_id>/preflight.json   of each node, findings, nodes left out, controls

`run_preflight` moves cases. Workers, triggerers and the ingest read the spool; only the counting of
faults over all nights needs the warehouse, and the ingest makes up for it later.
"""

import dataclasses
import getpass
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from upath import UPath

from nightbench.core.documents import from_document, to_document
from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseStatus,
    Cluster,
    FrameworkInfo,
    HealthPolicy,
    Reason,
    ReasonCode,
    reasons_from_json,
)
from nightbench.core.sentences import sentences
from nightbench.gang import Shipment, Target
from nightbench.gang.preflight import Network, preflight
from nightbench.gang.progress import OnEvent, ignore
from nightbench.nodes import (
    Control,
    Finding,
    FindingLevel,
    JudgedNode,
    NodeEvent,
    NodePreflight,
    NodesOut,
    NodeState,
    compare,
    controls_of,
    findings,
    left_out_because,
    node_state,
)
from nightbench.nodes.node_preflight import fail, warn
from nightbench.nodes.quarantine import CLEAN, FAULT, PERSON, PREFLIGHT, WORKED
from nightbench.spool import CaseStore, RunSpool, read_json, write_json
from nightbench.warehouse import Warehouse

SCHEMA = "nightbench.preflight-cluster/2"


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
        """The control measurements of nodes without foreign work, which would distort them."""
        return tuple(c for c in self.controls if not {*c.node.split("+")} & {*self.busy})

    @property
    def failed(self) -> bool:
        """True if a finding is a failure."""
        found = [f for node in self.nodes for f in node.findings]
        return any(f.level is FindingLevel.FAIL for f in (*found, *self.between))


# --- examining ------------------------------------------------------------------------------


async def examine(
    cluster: Cluster,
    targets: Mapping[str, Target],
    shipment: Shipment,
    lines: Sequence[FrameworkInfo] = (),
    *,
    controls: bool = False,
    sweep: bool = False,
    on_event: OnEvent = ignore,
) -> ClusterHealth:
    """Examine all nodes and judge them, for the framework lines that are to run there.

    With `controls` control measurements are taken too; with `sweep` orphaned processes of
    Nightbench are ended first.
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
    if network is not None:
        controls += filter(None, (network.control, network.gpus))
        names = ", ".join(network.nodes)
        if network.problem is not None:
            advice = (
                "frameworks listen on the ports `port_range` of the address `data_address`: open "
                "these ports in the nodes' firewalls, and check the address in the cluster's YAML"
            )
            reached = f"nodes reach each other ({names})"
            between.append(fail("network", str(network.problem), reached, advice))
        if network.gpus_problem is not None:
            advice = (
                "see NCCL's own message there; check `interface` of the nodes, NCCL_* in `env` of "
                "the cluster's YAML, and NCCL's ports, which are not those of `port_range`"
            )
            reduced = f"an all-reduce between the GPUs of {names} succeeds"
            between.append(warn("all_reduce_gpus", str(network.gpus_problem), reduced, advice))
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


# --- in the spool ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RunHealth:
    """The preflight of a run, as the spool holds it."""

    health: ClusterHealth
    policy: HealthPolicy
    """Policy of the cluster, for counting faults."""
    out: NodesOut
    """The nodes that are left out."""


def save(folder: RunSpool, health: ClusterHealth, policy: HealthPolicy, out: NodesOut) -> None:
    """Store the preflight of a run."""
    document = to_document(RunHealth(health, policy, out))
    write_json(_file(folder), {"schema": SCHEMA, **document})


def read(folder: RunSpool) -> RunHealth | None:
    """Return what `save` stored; None if the run had no preflight."""
    document = read_json(_file(folder))
    if document is None or document.get("schema") != SCHEMA:
        return None
    return from_document(RunHealth, document)


def _file(folder: RunSpool) -> UPath:
    return folder.folder / "preflight.json"


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


# --- events: faults and clean preflights, and which nodes they leave out -----------------------


def record_preflight(
    warehouse: Warehouse,
    run_id: str,
    health: ClusterHealth,
    policy: HealthPolicy,
    more: Sequence[NodeEvent] = (),
) -> dict[str, NodeState]:
    """Store a preflight with its events, and more of its run; return the states of the nodes.

    Raises:
        WarehouseUnavailable: nothing was stored; `record_run` stores it later.
    """
    keeper = warehouse.nodes
    keeper.store_preflight(health.cluster, run_id, health.nodes, health.valid_controls, health.at)
    return keeper.count(health.cluster, [*_preflight_events(health, run_id), *more], policy)


def record_run(warehouse: Warehouse, folder: RunSpool, cluster: str) -> dict[str, NodeState]:
    """Store a run's preflight and all its node events; return the states of the nodes."""
    known = read(folder)
    events = list(_case_events(folder, cluster))
    if known is not None:
        return record_preflight(warehouse, folder.run_id, known.health, known.policy, events)
    return warehouse.nodes.count(cluster, events, HealthPolicy()) if events else {}


def set_node_state(
    warehouse: Warehouse, cluster: Cluster, node: str, kind: str, why: str
) -> NodeState:
    """Put a node into quarantine, or release it (`kind`), in this user's name; return its state.

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
        reasons=(Reason(ReasonCode.PERSON, observed=why),),
        by_whom=getpass.getuser(),
        subject=PERSON,
    )
    return warehouse.nodes.count(cluster.name, [event], cluster.health)[node]


def nodes_out_now(folder: RunSpool, cluster: str) -> NodesOut:
    """Return the nodes that are left out by the preflight, or by cases of this run since.

    It reads the spool alone. Workers call it before each case, so that a node that fails in the
    night does not cost every later case its time limit.
    """
    known = read(folder)
    events = list(_case_events(folder, cluster))
    if known is not None:
        events += _preflight_events(known.health, folder.run_id)
    policy = known.policy if known else HealthPolicy()
    tonight = {
        node: left_out_because(node, *state.reasons)
        for node in sorted({event.node for event in events})
        if (
            state := node_state(cluster, node, [e for e in events if e.node == node], policy)
        ).quarantined
    }
    return {**tonight, **(known.out if known else {})}


def _preflight_events(health: ClusterHealth, run_id: str) -> Iterator[NodeEvent]:
    for node in health.nodes:
        fault = node.fault
        yield NodeEvent(
            cluster=health.cluster,
            node=node.seen.node,
            at=datetime.fromisoformat(node.seen.at),
            kind=FAULT if fault else CLEAN,
            reasons=(fault or Reason(ReasonCode.PREFLIGHT_CLEAN),),
            run_id=run_id,
            subject=PREFLIGHT,
        )


def _case_events(folder: RunSpool, cluster: str) -> Iterator[NodeEvent]:
    for case_id in folder.case_ids():
        for generation in folder.generations(case_id):
            store = folder.case(case_id, generation)
            yield from _events_of_case(store, folder.run_id, cluster, f"{case_id}/g{generation}")


def _events_of_case(
    store: CaseStore, run_id: str, cluster: str, subject: str
) -> Iterator[NodeEvent]:
    """Yield the events of a case that has ended; a failure of the framework gives none."""
    outcome, job = store.outcome(), store.job()
    if outcome is None:
        return
    kinds: dict[str, tuple[str, tuple[Reason, ...]]] = {}
    if outcome["status"] == CaseStatus.OK and job is not None:
        kinds = {node["name"]: (WORKED, ()) for node in job["nodes"]}
    for fault in reasons_from_json(outcome["faults"]):
        if fault.node is not None:
            kinds[fault.node] = (FAULT, (fault,))
    for node, (kind, reasons) in kinds.items():
        yield NodeEvent(
            cluster=cluster,
            node=node,
            at=datetime.fromisoformat(outcome["ended_at"]),
            kind=kind,
            reasons=reasons,
            run_id=run_id,
            subject=subject,
        )
