"""The state of nodes in the warehouse: looks, control measurements, faults, quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg2.extras import Json, RealDictCursor

from nightbench.core.model import HealthPolicy
from nightbench.nodes import Control, JudgedNode, NodeEvent, NodeState, standing
from nightbench.nodes.quarantine import NIGHTBENCH
from nightbench.warehouse import to_row
from nightbench.warehouse.connection import Connection, reported
from nightbench.warehouse.statements import statement

Row = dict[str, Any]

EVENTS_LOOKED_AT = 300
"""Of each node: a state rests on the newest and on what people said, whatever lies before."""


class NodeBook:
    """Stores and tells how nodes stand. Storing the same thing again changes nothing.

    Every method raises `WarehouseUnavailable` where PostgreSQL is away and `WarehouseRefused`
    where it refuses the data; in both cases nothing of the call was stored.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # --- writing ----------------------------------------------------------------------------

    def store_looks(
        self,
        cluster: str,
        run_id: str,
        nodes: Iterable[JudgedNode],
        controls: Iterable[Control],
        at: datetime,
    ) -> None:
        """Store a preflight of a cluster; controls are dated `at`."""
        with reported(f"store the preflight of {cluster}"), self._connection:
            self._execute("store_node_preflight", [_look(cluster, run_id, n) for n in nodes])
            self._execute("store_control", [_control(cluster, run_id, c, at) for c in controls])

    def count(
        self, cluster: str, events: Sequence[NodeEvent], policy: HealthPolicy
    ) -> dict[str, NodeState]:
        """Store events and work out where the nodes stand; every change goes into the history.

        Returns:
            The state of every node of the cluster of which anything is known.
        """
        with reported(f"count the faults of {cluster}'s nodes"), self._connection:
            self._execute("lock_cluster", [{"cluster": cluster}])
            self._execute("store_node_event", [vars(event) for event in events])
            before = {state.node: state for state in self._states(cluster)}
            now = self._standing(cluster, policy)
            for node, state in now.items():
                known = before.get(node, NodeState(cluster, node))
                self._execute("store_node_state", [vars(state)])
                if _news(known, state):
                    self._execute("store_node_state_change", [vars(state)])
        return now

    # --- reading ----------------------------------------------------------------------------

    def states(self, cluster: str) -> dict[str, NodeState]:
        """Where the nodes of a cluster stand, by node; those that are not there are well."""
        with reported(f"read how the nodes of {cluster} stand"):
            return {state.node: state for state in self._states(cluster)}

    def nodes(self, cluster: str) -> list[Row]:
        """Rows of `marts.dim_node`."""
        with reported(f"read the nodes of {cluster}"):
            return self._rows("nodes", cluster=cluster)

    def changes(self, cluster: str, node: str | None = None, limit: int = 50) -> list[Row]:
        """Changes of state, newest first: node, changed_at, state, since, reason, by."""
        with reported(f"read the history of {cluster}'s nodes"):
            return self._rows("node_state_changes", cluster=cluster, node=node, max_rows=limit)

    def control_baselines(
        self, cluster: str, before: datetime | None = None
    ) -> dict[tuple[str, str, str, str], float]:
        """Series of a control (`Control.key`) -> median of its ten newest figures."""
        with reported(f"read the control measurements of {cluster}"):
            return {
                (row["node"], row["metric"], row["device"], row["backend"]): row["median"]
                for row in self._rows("control_baselines", cluster=cluster, before=before)
            }

    # ------------------------------------------------------------------------------------------

    def _standing(self, cluster: str, policy: HealthPolicy) -> dict[str, NodeState]:
        by_node: dict[str, list[NodeEvent]] = {}
        for row in self._rows("node_events", cluster=cluster, max_rows=EVENTS_LOOKED_AT):
            by_node.setdefault(row["node"], []).append(NodeEvent(**row))
        return {node: standing(cluster, node, told, policy) for node, told in by_node.items()}

    def _states(self, cluster: str) -> list[NodeState]:
        return [NodeState(**row) for row in self._rows("node_states", cluster=cluster)]

    def _execute(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        with self._connection.cursor() as cursor:
            for row in rows:
                cursor.execute(statement(name), row)

    def _rows(self, name: str, **parameters: Any) -> list[Row]:
        with self._connection.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(statement(name), parameters)
            return [dict(row) for row in cursor.fetchall()]


def _news(known: NodeState, state: NodeState) -> bool:
    """Whether a state goes into the history.

    A run that was loaded late may move the moment of a quarantine, which is none; what a person
    says always is.
    """
    by_person = state.by_whom != NIGHTBENCH and state.since != known.since
    return state.since is not None and (state.state != known.state or by_person)


def _look(cluster: str, run_id: str, judged: JudgedNode) -> Row:
    seen = judged.seen
    return {
        "cluster": cluster,
        "node": seen.node,
        "at": seen.at,
        "run_id": run_id,
        "address": seen.address,
        "is_reachable": seen.reachable,
        "level": str(judged.level or "ok"),
        "findings": Json([finding.to_json() for finding in judged.findings]),
        "problem": to_row.text(seen.problem),
        "document": Json(dict(seen.document)) if seen.document is not None else None,
        "clock_offset_s": seen.clock and to_row.number(seen.clock.offset_s),
        "clock_error_s": seen.clock and to_row.number(seen.clock.error_s),
        "wall_error_s": to_row.number(seen.wall_error_s),
        "orphans_ended": len(seen.swept),
    }


def _control(cluster: str, run_id: str, control: Control, at: datetime) -> Row:
    return {
        "cluster": cluster,
        "node": control.node,
        "metric": control.metric,
        "device": control.device,
        "backend": control.backend,
        "at": at,
        "run_id": run_id,
        "unit": control.unit,
        "median": control.median,
        "minimum": min(control.values),
        "maximum": max(control.values),
        "n": len(control.values),
    }
