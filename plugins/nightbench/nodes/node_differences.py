"""Findings about differences between nodes: a gang is as fast as its slowest node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from nightbench.nodes.node_preflight import Finding, FindingLevel, NodePreflight

Document = Mapping[str, Any]

_TRAITS: tuple[tuple[str, Callable[[Document], str]], ...] = (
    ("processor", lambda d: f"{d['cpu']['model']}, {d['cpu']['cores']} cores"),
    ("GPUs", lambda d: ", ".join(sorted({str(g["name"]) for g in d["gpus"]})) or "none"),
    ("driver", lambda d: ", ".join(sorted({str(g["driver"]) for g in d["gpus"]})) or "none"),
    ("governor", lambda d: ", ".join(d["cpu"]["governors"]) or "none"),
)


def compare(nodes: Iterable[NodePreflight]) -> tuple[Finding, ...]:
    """Return the differences between nodes that are measured as one cluster."""
    seen = {each.node: each.document for each in nodes if each.document is not None}
    return tuple(_differences(seen))


def _differences(seen: Mapping[str, Document]) -> Iterator[Finding]:
    for what, trait in _TRAITS:
        having: dict[str, list[str]] = defaultdict(list)
        for node, document in sorted(seen.items()):
            having[trait(document)].append(node)
        if len(having) > 1:
            yield Finding(
                FindingLevel.WARN,
                what,
                "; ".join(f"{', '.join(names)}: {value}" for value, names in having.items()),
                "the same on all nodes: a case may be placed on any of them",
                "make a cluster of its own for each kind of node",
            )
