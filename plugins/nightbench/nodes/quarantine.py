"""When a node is left out, and when it comes back by itself.

A fault is a preflight that failed, or a case that failed because of the node. So many in a row
(`health.quarantine_after`) put it into quarantine; a clean preflight lets it out again. What a
person put into quarantine only a person lets out.
"""

from __future__ import annotations

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
"""Who changed a state, where it was no person."""

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
    """Something that speaks for or against a node."""

    cluster: str
    node: str
    at: datetime
    kind: str
    """clean, worked, fault; quarantined or released by a person."""
    reasons: tuple[Reason, ...] = ()
    by_whom: str = NIGHTBENCH
    run_id: str = ""
    """Empty where no run was under way."""
    subject: str = PREFLIGHT
    """`preflight`, `person`, or the case with its generation: the same is counted once."""


NodesOut = dict[str, tuple[Reason, ...]]
"""The nodes that take no part, each with why; the first reason says that it takes none."""


def left_out(node: str, *why: Reason) -> tuple[Reason, ...]:
    """The entry of a node in `NodesOut`."""
    return (Reason(ReasonCode.NODE_LEFT_OUT, node), *why)


def nodes_out_from_json(document: Mapping[str, Any]) -> NodesOut:
    """The inverse of `nodes_out_to_json`."""
    return {node: reasons_from_json(why) for node, why in document.items()}


def nodes_out_to_json(out: Mapping[str, tuple[Reason, ...]]) -> dict[str, Any]:
    """As it lies in the spool."""
    return {node: reasons_to_json(why) for node, why in out.items()}


@dataclass(frozen=True)
class NodeState:
    """Where a node stands."""

    cluster: str
    node: str
    state: str = OK
    """`ok` or `quarantined`."""
    since: datetime | None = None
    reasons: tuple[Reason, ...] = ()
    faults: int = 0
    """In a row, up to now."""
    by_whom: str = NIGHTBENCH
    """Who put it there."""
    last_fault: str = ""
    """What the last of them was found by: `preflight`, or a case with its generation."""

    @property
    def quarantined(self) -> bool:
        """Whether it is left out."""
        return self.state == QUARANTINED

    @property
    def quarantine(self) -> Reason:
        """That it is left out, and since when; `reasons` say why."""
        since = f"{self.since:%Y-%m-%d %H:%M} UTC" if self.since else "?"
        return Reason(ReasonCode.QUARANTINED, self.node, observed=since)


def standing(
    cluster: str, node: str, events: Iterable[NodeEvent], policy: HealthPolicy
) -> NodeState:
    """Where a node stands after all that is known of it, in any order.

    What was loaded late counts at its own time, as if it had never been late.
    """
    state = NodeState(cluster, node)
    for event in sorted(events, key=lambda e: (e.at, e.run_id, e.subject)):
        state = after(state, event, policy)
    return state


def after(state: NodeState, event: NodeEvent, policy: HealthPolicy) -> NodeState:
    """The state after one more event."""
    by_person = state.quarantined and state.by_whom != NIGHTBENCH
    if event.kind == QUARANTINED:
        return _changed(state, QUARANTINED, event)
    if event.kind == RELEASED:
        return _forgiven(_changed(state, OK, event))
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
        return _forgiven(_changed(state, OK, event))
    if state.quarantined:
        # Work on it that goes well had been placed before: only a look lets it out.
        return state
    # A clean look does not speak against a fault that only work brought to light: a node that
    # looks well each evening and fails each night would never be left out.
    forgiven = event.kind == WORKED or state.last_fault == PREFLIGHT
    return _forgiven(state) if forgiven else state


def _forgiven(state: NodeState) -> NodeState:
    return dataclasses.replace(state, faults=0, last_fault="")


def _changed(state: NodeState, to: str, event: NodeEvent) -> NodeState:
    return dataclasses.replace(
        state, state=to, since=event.at, reasons=event.reasons, by_whom=event.by_whom
    )
