"""What speaks for and against the nodes of a run, and who is left out by it.

A preflight that failed and a case that failed because of a node are its faults. They are counted
in the warehouse over the nights (`record_preflight`, `record_run`), and in the spool alone over one
(`nodes_out_now`).
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from datetime import UTC, datetime

from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseStatus,
    Cluster,
    HealthPolicy,
    Reason,
    ReasonCode,
    reasons_from_json,
)
from nightbench.night.cluster_preflight import ClusterHealth, read
from nightbench.nodes import NodeEvent, NodesOut, NodeState, left_out, standing
from nightbench.nodes.quarantine import CLEAN, FAULT, PERSON, PREFLIGHT, WORKED
from nightbench.spool import CaseStore, RunSpool
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection


def record_preflight(
    connection: Connection, run_id: str, health: ClusterHealth, policy: HealthPolicy
) -> dict[str, NodeState]:
    """Store a preflight and count what it says; returns where the nodes stand now.

    Raises:
        WarehouseUnavailable: nothing was stored; `record_run` does it later.
    """
    keeper = Warehouse(connection).nodes
    keeper.store_preflight(health.cluster, run_id, health.nodes, health.counted, health.at)
    return keeper.count(health.cluster, list(_looked(health, run_id)), policy)


def record_run(connection: Connection, folder: RunSpool, cluster: str) -> dict[str, NodeState]:
    """Store what a whole run says of its nodes: its preflight and how its cases ended there."""
    known = read(folder)
    events = list(_cases(folder, cluster))
    keeper = Warehouse(connection).nodes
    if known is None:
        return keeper.count(cluster, events, HealthPolicy()) if events else {}
    health = known.health
    keeper.store_preflight(cluster, folder.run_id, health.nodes, health.counted, health.at)
    return keeper.count(cluster, [*_looked(health, folder.run_id), *events], known.policy)


def set_node_state(
    connection: Connection, cluster: Cluster, node: str, kind: str, why: str, by: str = ""
) -> NodeState:
    """Put a node into quarantine, or let it out, in a person's name.

    Args:
        connection: to the warehouse.
        cluster: the node's.
        node: its name.
        kind: `quarantined` or `released`.
        why: in the person's words; shown wherever the node is.
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
        reasons=(Reason(ReasonCode.PERSON, observed=why),),
        by_whom=by or getpass.getuser(),
        subject=PERSON,
    )
    return Warehouse(connection).nodes.count(cluster.name, [event], cluster.health)[node]


def nodes_out_now(folder: RunSpool, cluster: str) -> NodesOut:
    """The nodes that take no part any more: since the preflight, or since what ran tonight.

    It needs the spool alone: a worker asks before each case, so that a node that dies at midnight
    does not cost every later case its time limits.
    """
    known = read(folder)
    events = list(_cases(folder, cluster))
    if known is not None:
        events += _looked(known.health, folder.run_id)
    policy = known.policy if known else HealthPolicy()
    tonight = {
        node: left_out(node, *state.reasons)
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
            reasons=(fault or Reason(ReasonCode.PREFLIGHT_CLEAN),),
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
