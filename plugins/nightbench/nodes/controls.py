"""Short control measurements: the same small work on every node, night for night.

They are series of their own. A case and the controls of its nodes slow together where a node is
slow; the case alone slows where a framework is.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ALL_REDUCE = "all_reduce"
"""Ring all-reduce between all nodes over TCP: bytes reduced per second of the slowest rank."""


@dataclass(frozen=True)
class Control:
    """One control measurement of a node, or of several together."""

    node: str
    """Its name; `n1+n2` where it is between nodes."""
    metric: str
    """`matrix_product`, `memory_copy` or `all_reduce`."""
    device: str
    """`cpu`, `gpu-0`, or `network`."""
    backend: str
    """What computed it: figures of different backends are not comparable."""
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure of the series."""
        return statistics.median(self.values)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names its series on a cluster."""
        return (self.node, self.metric, self.device, self.backend)

    def to_json(self) -> dict[str, Any]:
        """As it lies in the spool."""
        return {**vars(self), "values": list(self.values)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Control:
        """The inverse of `to_json`."""
        return cls(**{**document, "values": tuple(document["values"])})


def controls_of(node: str, document: Mapping[str, Any] | None) -> tuple[Control, ...]:
    """The controls of a node's preflight/1 document."""
    return tuple(
        Control(
            node=node,
            metric=each["metric"],
            device=each["device"],
            backend=each["backend"],
            unit=each["unit"],
            values=tuple(each["values"]),
        )
        for each in (document or {}).get("controls", ())
    )


def all_reduce(
    nodes: Sequence[str], answers: Sequence[Mapping[str, Any]], backend: str = "tcp"
) -> Control | None:
    """The control between nodes: each round counts with its slowest rank.

    Args:
        nodes: the ranks' nodes.
        answers: what each rank said: `seconds` of its rounds, `bytes` of the reduced vector.
        backend: what moved the bytes.

    Returns:
        None where no round is complete.
    """
    rounds = list(zip(*(answer["seconds"] for answer in answers), strict=False))
    values = tuple(
        answers[0]["bytes"] / max(seconds) / 1e9 for seconds in rounds if max(seconds) > 0
    )
    if not values:
        return None
    return Control("+".join(sorted(nodes)), ALL_REDUCE, "network", backend, "GB/s", values)
