"""A possible cause with its evidence, and how other series and controls behaved.

A weight counts evidence; it is not a probability. The evidence that a cause requires (its version
changed, a control measurement dropped) weighs 2 to 4; other series and control measurements 1 to 3.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nightbench.causes.facts import CauseFacts, ControlSeries, Peer
from nightbench.core.model.alerts import CauseKind

ENOUGH = 2
"""Weight from which a possible cause is accepted."""
MAJORITY = 2 / 3
"""Share of the other series that must agree."""
EXPLAINS = 1 / 3
"""Share of a series' drop that a control measurement must have lost to explain it."""
LONGEST_NAME = 200
"""Characters: PostgreSQL indexes at most 2,704 bytes of a key."""
SHOWN = 4
"""Items that a sentence names before it counts the rest."""


@dataclass
class PossibleCause:
    """A possible cause while its evidence is collected."""

    kind: CauseKind
    name: str
    """Key by which alerts are grouped: a node, a pair of versions, changed fields."""
    sentence: str
    weight: int = 0
    evidence_for: list[str] = field(default_factory=list)
    evidence_against: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.name) > LONGEST_NAME:
            digest = hashlib.sha256(self.name.encode()).hexdigest()[:8]
            self.name = f"{self.name[:LONGEST_NAME]}... ({digest})"

    def add_for(self, weight: int, text: str) -> None:
        """Add evidence for the cause."""
        self.weight += weight
        self.evidence_for.append(text)

    def add_against(self, weight: int, text: str) -> None:
        """Add evidence against the cause."""
        self.weight -= weight
        self.evidence_against.append(text)


# --- other series and controls -------------------------------------------------------------


@dataclass(frozen=True)
class PeerCounts:
    """Numbers of other series that dropped and that were steady."""

    dropped: int
    steady: int

    @property
    def mostly_dropped(self) -> bool:
        """True if at least two thirds dropped, and at least one."""
        return self.dropped > 0 and self.dropped >= MAJORITY * (self.dropped + self.steady)

    @property
    def mostly_steady(self) -> bool:
        """True if at least two thirds were steady, and at least one."""
        return self.steady > 0 and self.steady >= MAJORITY * (self.dropped + self.steady)


def count(peers: Iterable[Peer]) -> PeerCounts:
    """Count the series that dropped and that were steady; unknown ones are in neither."""
    known = [peer.dropped for peer in peers if peer.dropped is not None]
    return PeerCounts(sum(known), len(known) - sum(known))


def peers_on(facts: CauseFacts, nodes: frozenset[str]) -> list[Peer]:
    """Return the series that ran on one of the nodes."""
    return [peer for peer in facts.peers if nodes & set(peer.nodes)]


def peers_by_place(facts: CauseFacts, nodes: frozenset[str]) -> tuple[PeerCounts, PeerCounts]:
    """Count the series on the nodes and on others alone, without those with another reason."""
    own = [peer for peer in facts.peers if peer.nodes and not peer.dropped_with_others]
    there = [peer for peer in own if nodes & set(peer.nodes)]
    return count(there), count(peer for peer in own if not nodes & set(peer.nodes))


def other_frameworks(facts: CauseFacts) -> list[Peer]:
    """Return series of other frameworks on the case's nodes; on any if its nodes are unknown."""
    others = [peer for peer in facts.peers if peer.framework != facts.framework]
    if not facts.nodes:
        return others
    return [peer for peer in others if facts.nodes & set(peer.nodes)]


def dropped_controls(facts: CauseFacts) -> list[ControlSeries]:
    """Return the control measurements of the case's nodes that dropped.

    A control measurement between nodes counts only if the case runs on all of them.
    """
    return [
        control
        for control in facts.controls
        if control.dropped
        and (
            control.nodes <= facts.nodes
            if len(control.nodes) > 1
            else bool(control.nodes & facts.nodes)
        )
    ]


def steady_controls(facts: CauseFacts) -> list[ControlSeries]:
    """Return the control measurements of the case's nodes that did not drop."""
    return [c for c in facts.controls if c.dropped is False and c.nodes <= facts.nodes]


def largest_loss(dropped: Sequence[ControlSeries]) -> float:
    """Return the largest relative loss of the control measurements."""
    return max((1 - (control.ratio or 1.0) for control in dropped), default=0.0)


def explain_loss(facts: CauseFacts, dropped: Sequence[ControlSeries]) -> bool:
    """Return whether the control measurements lost enough to explain the loss of the series."""
    return facts.change is None or largest_loss(dropped) >= -facts.change * EXPLAINS


def weigh_peers(
    cause: PossibleCause, there: PeerCounts, where: str, dropped: int | None = 1, steady: int = 1
) -> None:
    """Add what most other series did; they are no evidence for the cause if `dropped` is None."""
    if there.mostly_dropped and dropped is not None:
        cause.add_for(dropped, f"{there.dropped} other series {where} dropped too")
    elif there.mostly_steady:
        cause.add_against(steady, f"{there.steady} other series {where} were steady")


def weigh_controls(facts: CauseFacts, cause: PossibleCause, weight: int) -> None:
    """Add dropped control measurements as evidence against software."""
    dropped = dropped_controls(facts)
    if dropped:
        cause.add_against(weight if explain_loss(facts, dropped) else 0, controls_text(dropped))


def controls_text(dropped: Sequence[ControlSeries]) -> str:
    """Return `control measurements dropped: memory_copy of n1 to 80% of its earlier value`."""
    ratios = [f"{c.label} to {c.ratio or 0.0:.0%} of its earlier value" for c in dropped]
    return f"control measurements dropped: {shortened(ratios)}"


# --- text ---------------------------------------------------------------------------------


def pair_of(one: str | None, other: str | None) -> str:
    """Return the first characters of two digests, `old -> new`."""
    return f"{(one or '')[:12]} -> {(other or '')[:12]}"


def shortened(items: Iterable[str]) -> str:
    """Return the first `SHOWN` items as text, and how many more there are."""
    every = list(dict.fromkeys(items))
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return "; ".join(every[:SHOWN]) + more
