"""Nodes in the warehouse: preflights, control measurements, events, quarantine."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from psycopg2.extras import Json

from nightbench.core.documents import to_document
from nightbench.core.model import HealthPolicy, reasons_from_json
from nightbench.core.sentences import sentence
from nightbench.nodes import Control, JudgedNode, NodeEvent, NodeState, node_state
from nightbench.nodes.quarantine import NIGHTBENCH
from nightbench.warehouse import to_row
from nightbench.warehouse.repository import Repository, Row

EVENTS_LOOKED_AT = 300
"""Events read for each node: its state follows from the newest ones and from all of people."""


class NodeRepository(Repository):
    """Preflights, control measurements, events and states of nodes."""

    def store_preflight(
        self,
        cluster: str,
        run_id: str,
        nodes: Iterable[JudgedNode],
        controls: Iterable[Control],
        at: datetime,
    ) -> None:
        """Store a preflight of a cluster; controls are dated `at`."""
        with self._transaction(f"store the preflight of {cluster}"):
            self._store("node_preflight", [_preflight(cluster, run_id, n) for n in nodes])
            self._store("control", [_control(cluster, run_id, c, at) for c in controls])

    def count(
        self, cluster: str, events: Sequence[NodeEvent], policy: HealthPolicy
    ) -> dict[str, NodeState]:
        """Store events, and the states that follow from all events; a change enters the history.

        Returns:
            The state of every node of the cluster of which anything is known.
        """
        with self._transaction(f"count the faults of {cluster}'s nodes"):
            self._lock_for_transaction(f"nodes of {cluster}")
            self._store("node_event", [_row(event) for event in events])
            states = self._rows("node_states", cluster=cluster)
            before = {row["node"]: NodeState(**_fields(row)) for row in states}
            by_node: dict[str, list[NodeEvent]] = {}
            for row in self._rows("node_events", cluster=cluster, max_rows=EVENTS_LOOKED_AT):
                by_node.setdefault(row["node"], []).append(NodeEvent(**_fields(row)))
            now = {node: node_state(cluster, node, of, policy) for node, of in by_node.items()}
            stored = {node: _row(state) for node, state in now.items()}
            for row in stored.values():
                del row["last_fault"]
            self._store("node_state", list(stored.values()), "cluster node")
            for node, row in stored.items():
                del row["faults"]
                if _is_news(before.get(node, NodeState(cluster, node)), now[node]):
                    self._store("node_state_change", [row])
        return now

    def states(self, cluster: str) -> dict[str, NodeState]:
        """States of a cluster's nodes, by node; those that are missing are healthy."""
        rows = self.read("node_states", cluster=cluster)
        return {row["node"]: NodeState(**_fields(row)) for row in rows}

    def changes(self, cluster: str, node: str | None = None, limit: int = 50) -> list[Row]:
        """Changes of state, newest first: node, changed_at, state, since, reasons, by."""
        return self.read("node_state_changes", cluster=cluster, node=node, max_rows=limit)

    def control_baselines(self, cluster: str) -> dict[tuple[str, str, str, str], float]:
        """Series of a control measurement (`Control.key`) -> median of its ten newest values."""
        return {
            (row["node"], row["metric"], row["device"], row["backend"]): row["median"]
            for row in self.read("control_baselines", cluster=cluster)
        }


def _row(of: NodeEvent | NodeState) -> Row:
    return vars(of) | {"reasons": to_row.reasons_document(of.reasons)}


def _fields(row: Row) -> Row:
    return row | {"reasons": reasons_from_json(row["reasons"])}


def _is_news(known: NodeState, state: NodeState) -> bool:
    """Return whether a state is new; one whose `since` alone changed is new only by a person."""
    by_person = state.by_whom != NIGHTBENCH and state.since != known.since
    return state.since is not None and (state.state != known.state or by_person)


def _preflight(cluster: str, run_id: str, judged: JudgedNode) -> Row:
    seen = judged.seen
    return {
        "cluster": cluster,
        "node": seen.node,
        "at": seen.at,
        "run_id": run_id,
        "address": seen.address,
        "is_reachable": seen.reachable,
        "level": str(judged.level or "ok"),
        "findings": Json([to_document(finding) for finding in judged.findings]),
        "problem": sentence(seen.problem) if seen.problem else None,
        "document": Json(dict(seen.document)) if seen.document is not None else None,
        "clock_offset_s": seen.clock and seen.clock.offset_s,
        "clock_error_s": seen.clock and seen.clock.error_s,
        "wall_error_s": seen.wall_error_s,
        "orphans_ended": len(seen.swept),
    }


def _control(cluster: str, run_id: str, control: Control, at: datetime) -> Row:
    return {
        **{name: value for name, value in vars(control).items() if name != "values"},
        "cluster": cluster,
        "at": at,
        "run_id": run_id,
        "median": control.median,
        "minimum": min(control.values),
        "maximum": max(control.values),
        "n": len(control.values),
    }
