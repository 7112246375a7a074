"""A suspect with what speaks for and against it, and what other series and controls say.

A weight is a count of reasons, not a probability: what a suspect must have (its version changed,
its control fell) weighs 2 to 4, what other series and controls say adds or takes 1 to 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nightbench.causes.facts import ControlSeries, Facts, Peer
from nightbench.core.model.alerts import CauseKind

ENOUGH = 2
"""Weight from which a suspect is the cause."""
MOST = 2 / 3
"""Share of series that have to say the same."""
EXPLAINS = 1 / 3
"""Of a series' fall that a control of its node must have lost to explain it."""
SHOWN = 4
"""Of several things of one kind that a sentence names."""


@dataclass
class PossibleCause:
    """A possible cause while reasons are collected."""

    kind: CauseKind
    name: str
    """What groups alerts: a node, a pair of versions, changed fields."""
    sentence: str
    weight: int
    pro: list[str]
    con: list[str]

    def speaks_for(self, weight: int, said: str) -> None:
        """A reason for it."""
        self.weight += weight
        self.pro.append(said)

    def speaks_against(self, weight: int, said: str) -> None:
        """A reason against it."""
        self.weight -= weight
        self.con.append(said)


# --- what the others did -------------------------------------------------------------------


@dataclass(frozen=True)
class Others:
    """Some other series, counted."""

    fell: int
    steady: int

    @property
    def mostly_fell(self) -> bool:
        """Whether two of three fell, and one at least."""
        return self.fell > 0 and self.fell >= MOST * (self.fell + self.steady)

    @property
    def mostly_steady(self) -> bool:
        """Whether two of three were steady, and one at least."""
        return self.steady > 0 and self.steady >= MOST * (self.fell + self.steady)


def count(peers: Iterable[Peer]) -> Others:
    """How many fell and were steady; of the rest nothing is known."""
    told = [peer.fell for peer in peers if peer.fell is not None]
    return Others(sum(told), len(told) - sum(told))


def beside(facts: Facts, nodes: frozenset[str]) -> list[Peer]:
    """Series that ran on one of the nodes."""
    return [peer for peer in facts.peers if nodes & set(peer.nodes)]


def other_frameworks(facts: Facts) -> list[Peer]:
    """On the case's nodes; all of the cluster where its nodes are not known."""
    others = [peer for peer in facts.peers if peer.framework != facts.framework]
    if not facts.nodes:
        return others
    return [peer for peer in others if facts.nodes & set(peer.nodes)]


def fallen_controls(facts: Facts) -> list[ControlSeries]:
    """Controls that fell and concern the case; those between nodes only where it uses both."""
    return [
        control
        for control in facts.controls
        if control.fell
        and (
            control.nodes <= facts.nodes
            if len(control.nodes) > 1
            else bool(control.nodes & facts.nodes)
        )
    ]


def steady_controls(facts: Facts) -> list[ControlSeries]:
    """Controls of the case's nodes that are as they were."""
    return [c for c in facts.controls if c.fell is False and c.nodes <= facts.nodes]


def lost_by(fallen: Sequence[ControlSeries]) -> float:
    """The largest relative loss of some controls."""
    return max((1 - (control.ratio or 1.0) for control in fallen), default=0.0)


def may_explain(facts: Facts, fallen: Sequence[ControlSeries]) -> bool:
    """Whether controls lost enough for the series to have lost what it did."""
    return facts.change is None or lost_by(fallen) >= -facts.change * EXPLAINS


def held_against_controls(facts: Facts, suspect: PossibleCause, slow: int) -> None:
    """A slow node speaks against software, where it is slow enough."""
    fallen = fallen_controls(facts)
    if fallen:
        suspect.speaks_against(slow if may_explain(facts, fallen) else 0, controls_fell(fallen))


def controls_fell(fallen: Sequence[ControlSeries]) -> str:
    """`controls fell: memory_copy (cpu) of n1 to 80% of before`."""
    told = [f"{c.says} to {c.ratio or 0.0:.0%} of before" for c in fallen]
    return f"controls fell: {some(told)}"


# --- words ---------------------------------------------------------------------------------


def differ(one: str | None, other: str | None) -> bool:
    """Whether both are known and are not the same."""
    return bool(one) and bool(other) and one != other


def pair_of(one: str | None, other: str | None) -> str:
    """The beginnings of two digests."""
    return f"{(one or '')[:12]} -> {(other or '')[:12]}"


def other_series(count: int) -> str:
    """So many, in words."""
    return f"{count} other series"


def some(told: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    every = list(dict.fromkeys(told))
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return "; ".join(every[:SHOWN]) + more
