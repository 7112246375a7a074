"""Decides when a node goes into quarantine, and when it is released.

A fault is a failed preflight, or a case that failed because of the node. After
`health.quarantine_after` faults in a row a node is in quarantine until a clean preflight releases
it. A node that a person put into quarantine is released by a person only.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nightbench.core.model import (
    HealthPolicy,
    Reason,
    ReasonCode,
    reasons_from_json,
    reasons_to_json,
)

NIGHTBENCH = "nightbench"
"""The author of automatic changes."""

CLEAN = "clean"
"""A preflight without a failure."""
WORKED = "worked"
"""A case was measured on the node."""
FAULT = "fault"
"""A preflight or a case that failed because of the node."""
QUARANTINED = "quarantined"
RELEASED = "released"

OK = "ok"
PREFLIGHT = "preflight"
PERSON = "person"


@dataclass(frozen=True)
class NodeEvent:
    """An event that may change the state of a node."""

    cluster: str
    node: str
    at: datetime
    kind: str
    """clean, worked or fault; quarantined or released, by a person."""
    reasons: tuple[Reason, ...] = ()
    by_whom: str = NIGHTBENCH
    run_id: str = ""
    """Empty for an event outside of runs."""
    subject: str = PREFLIGHT
    """`preflight`, `person`, or the case with its generation; one subject of a run counts once."""


NodesOut = dict[str, tuple[Reason, ...]]
"""Nodes that are left out -> reasons; the first reason is `node_left_out`."""


def left_out_because(node: str, *why: Reason) -> tuple[Reason, ...]:
    """Return the reasons of a node in `NodesOut`."""
    return (Reason(ReasonCode.NODE_LEFT_OUT, node), *why)


def nodes_out_from_json(document: Mapping[str, Any]) -> NodesOut:
    """Return the inverse of `nodes_out_to_json`."""
    return {node: reasons_from_json(why) for node, why in document.items()}


def nodes_out_to_json(out: Mapping[str, tuple[Reason, ...]]) -> dict[str, Any]:
    """Return it as the spool stores it."""
    return {node: reasons_to_json(why) for node, why in out.items()}


@dataclass(frozen=True)
class NodeState:
    """The quarantine state of a node."""

    cluster: str
    node: str
    state: str = OK
    """`ok` or `quarantined`."""
    since: datetime | None = None
    reasons: tuple[Reason, ...] = ()
    faults: int = 0
    """Faults in a row, up to now."""
    by_whom: str = NIGHTBENCH
    """Author of the last change."""
    last_fault: str = ""
    """Subject of the last fault: `preflight`, or a case with its generation."""

    @property
    def quarantined(self) -> bool:
        """True if it is left out."""
        return self.state == QUARANTINED

    @property
    def quarantine_reason(self) -> Reason:
        """The reason "in quarantine since"; `reasons` say why it is there."""
        since = f"{self.since:%Y-%m-%d %H:%M} UTC" if self.since else "?"
        return Reason(ReasonCode.QUARANTINED, self.node, observed=since)


def node_state(
    cluster: str, node: str, events: Iterable[NodeEvent], policy: HealthPolicy
) -> NodeState:
    """Return the state of a node after all its events, which may come in any order.

    Events count at their own time, however late they were loaded.
    """
    state = NodeState(cluster, node)
    for event in sorted(events, key=lambda e: (e.at, e.run_id, e.subject)):
        state = _state_after(state, event, policy)
    return state


def _state_after(state: NodeState, event: NodeEvent, policy: HealthPolicy) -> NodeState:
    by_person = state.quarantined and state.by_whom != NIGHTBENCH
    if event.kind == QUARANTINED:
        return _changed(state, QUARANTINED, event)
    if event.kind == RELEASED:
        return _without_faults(_changed(state, OK, event))
    if event.kind == FAULT:
        counted = dataclasses.replace(state, faults=state.faults + 1, last_fault=event.subject)
        if state.quarantined or counted.faults < policy.quarantine_after:
            return counted
        count = Reason(
            ReasonCode.FAULTS_IN_A_ROW, subject=event.subject, observed=f"{counted.faults} faults"
        )
        reasons = (count, *event.reasons)
        return _changed(counted, QUARANTINED, dataclasses.replace(event, reasons=reasons))
    if event.kind == CLEAN and state.quarantined and not by_person:
        return _without_faults(_changed(state, OK, event))
    if state.quarantined:
        # A successful case was placed earlier; only a preflight releases the node.
        return state
    # A clean preflight does not cancel the fault of a case. Otherwise a node on which cases fail
    # would never be left out if its preflights are clean.
    cancels_faults = event.kind == WORKED or state.last_fault == PREFLIGHT
    return _without_faults(state) if cancels_faults else state


def _without_faults(state: NodeState) -> NodeState:
    return dataclasses.replace(state, faults=0, last_fault="")


def _changed(state: NodeState, to: str, event: NodeEvent) -> NodeState:
    return dataclasses.replace(
        state, state=to, since=event.at, reasons=event.reasons, by_whom=event.by_whom
    )
