"""Control measurements: the same small work on every node, every night, without any framework.

They form series of their own. On a slow node a case and the controls of its nodes slow down
together; with a slow framework only the case does.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.core.documents import from_document

ALL_REDUCE = "all_reduce"
"""Ring all-reduce between all nodes over TCP: bytes reduced per second of the slowest rank."""


@dataclass(frozen=True)
class Control:
    """One control measurement of one node, or between several."""

    node: str
    """Name of the node; `n1+n2` for one between nodes."""
    metric: str
    """`matrix_product`, `memory_copy` or `all_reduce`."""
    device: str
    """`cpu`, `gpu-0`, or `network`."""
    backend: str
    """Library that computed it; figures of different backends are not comparable."""
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the values: the figure of the series."""
        return statistics.median(self.values)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Key of its series on a cluster."""
        return (self.node, self.metric, self.device, self.backend)


def controls_of(node: str, document: Mapping[str, Any] | None) -> tuple[Control, ...]:
    """Return the controls in a node's preflight/1 document."""
    return tuple(
        from_document(Control, {**each, "node": node})
        for each in (document or {}).get("controls", ())
    )


def all_reduce(
    nodes: Sequence[str], answers: Sequence[Mapping[str, Any]], backend: str = "tcp"
) -> Control | None:
    """Return the control between nodes in GB/s; each round counts with its slowest rank.

    Each rank answers with `seconds` of its rounds and `bytes` of the reduced vector.

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
