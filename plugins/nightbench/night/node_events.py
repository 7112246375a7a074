"""Node events of a run: faults and clean preflights, and which nodes they leave out.

`record_preflight` and `record_run` store the events in the warehouse, where they count over all
nights. `nodes_out_now` reads one run's events from the spool alone.
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
from nightbench.nodes import NodeEvent, NodesOut, NodeState, left_out_because, node_state
from nightbench.nodes.quarantine import CLEAN, FAULT, PERSON, PREFLIGHT, WORKED
from nightbench.spool import CaseStore, RunSpool
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection


def record_preflight(
    connection: Connection, run_id: str, health: ClusterHealth, policy: HealthPolicy
) -> dict[str, NodeState]:
    """Store a preflight and its events; return the states of the nodes.

    Raises:
        WarehouseUnavailable: nothing was stored; `record_run` stores it later.
    """
    keeper = Warehouse(connection).nodes
    keeper.store_preflight(health.cluster, run_id, health.nodes, health.valid_controls, health.at)
    return keeper.count(health.cluster, list(_preflight_events(health, run_id)), policy)


def record_run(connection: Connection, folder: RunSpool, cluster: str) -> dict[str, NodeState]:
    """Store a run's preflight and all its node events; return the states of the nodes."""
    known = read(folder)
    events = list(_case_events(folder, cluster))
    keeper = Warehouse(connection).nodes
    if known is None:
        return keeper.count(cluster, events, HealthPolicy()) if events else {}
    health = known.health
    keeper.store_preflight(cluster, folder.run_id, health.nodes, health.valid_controls, health.at)
    return keeper.count(cluster, [*_preflight_events(health, folder.run_id), *events], known.policy)


def set_node_state(
    connection: Connection, cluster: Cluster, node: str, kind: str, why: str, by: str = ""
) -> NodeState:
    """Put a node into quarantine, or release it, in a person's name; return its state.

    Args:
        connection: to the warehouse.
        cluster: the node's.
        node: its name.
        kind: `quarantined` or `released`.
        why: the reason, which is shown with the node.
        by: the person; the user of this process when empty.

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
