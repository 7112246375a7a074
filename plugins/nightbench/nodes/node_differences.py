"""Differences between the nodes of a cluster: a gang is as fast as its slowest one."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nightbench.nodes.node_preflight import Finding, NodePreflight, warn

_A_CLUSTER_EACH = "define a separate cluster for each kind of node"
_STATE_MACHINES = (
    "set `machine` for all nodes in the cluster's file, so that each gang is placed on nodes of "
    f"one architecture; or {_A_CLUSTER_EACH}"
)
_TRAITS: tuple[tuple[str, Callable[[Mapping[str, Any]], str], str], ...] = (
    ("machine", lambda d: d["cpu"].get("machine", "unknown"), _STATE_MACHINES),
    (
        "processor",
        lambda d: f"{d['cpu']['model']}, {d['cpu']['cores']} cores",
        _A_CLUSTER_EACH,
    ),
    (
        "GPUs",
        lambda d: ", ".join(sorted({str(g["name"]) for g in d["gpus"]})) or "none",
        _A_CLUSTER_EACH,
    ),
    (
        "driver",
        lambda d: ", ".join(sorted({str(g["driver"]) for g in d["gpus"]})) or "none",
        _A_CLUSTER_EACH,
    ),
    ("governor", lambda d: ", ".join(d["cpu"]["governors"]) or "none", _A_CLUSTER_EACH),
)


def compare(nodes: Iterable[NodePreflight]) -> tuple[Finding, ...]:
    """Return the differences between nodes that are measured as one cluster."""
    seen = {each.node: each.document for each in nodes if each.document is not None}
    found = []
    for what, trait, advice in _TRAITS:
        having: dict[str, list[str]] = defaultdict(list)
        for node, document in sorted(seen.items()):
            having[trait(document)].append(node)
        if len(having) > 1:
            differ = "; ".join(f"{', '.join(names)}: {value}" for value, names in having.items())
            expected = "the same on all nodes, because a case may run on any of them"
            found.append(warn(what, differ, expected, advice))
    return tuple(found)
