"""The result of a node's preflight: findings about it, and control measurements.

Controls are the same small work on every node, every night, without any framework. They form series
of their own. On a slow node a case and the control measurements of its nodes slow down together;
with a slow framework only the case does.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from nightbench.core.documents import from_document
from nightbench.core.model import ClockOffset, Reason, ReasonCode


class FindingLevel(StrEnum):
    """Severity of a finding."""

    INFO = "info"
    """For information; nothing is wrong."""
    WARN = "warn"
    """Should be examined; the node is used."""
    FAIL = "fail"
    """The node is not used until it is repaired."""


_ORDER = (FindingLevel.INFO, FindingLevel.WARN, FindingLevel.FAIL)


@dataclass(frozen=True)
class Finding:
    """One observation about a node."""

    level: FindingLevel
    what: str
    """Subject in a word or two: `disk`, `clock`, `throttle`."""
    found: str
    expected: str
    advice: str
    """Action that fixes it."""
    device: str | None = None
    """The device, such as `GPU 3`; None for a finding about the node."""

    @property
    def title(self) -> str:
        """Device and subject: `GPU 3 throttle`."""
        return f"{self.device} {self.what}" if self.device else self.what


fail = partial(Finding, FindingLevel.FAIL)
warn = partial(Finding, FindingLevel.WARN)
info = partial(Finding, FindingLevel.INFO)


def worst(findings: Iterable[Finding]) -> FindingLevel | None:
    """Return the most severe level; None without findings."""
    return max((f.level for f in findings), key=_ORDER.index, default=None)


@dataclass(frozen=True)
class NodePreflight:
    """Result of examining one node."""

    node: str
    address: str
    """`host:port`."""
    at: str
    """Time by the controller's clock (UTC, ISO 8601)."""
    reachable: bool
    document: Mapping[str, Any] | None = None
    """nightbench.preflight/1; None if the agent could not run."""
    api: Mapping[str, Any] | None = None
    """Answer of the API server about a node that is a pod: version, denied rights, quotas."""
    problem: Reason | None = None
    """Why it could not run: `node_unreachable`, `host_key_rejected`, `login_refused`, ..."""
    clock: ClockOffset | None = None
    """The node's monotonic clock minus the controller's."""
    wall: ClockOffset | None = None
    """The node's wall clock minus the controller's."""
    swept: tuple[Mapping[str, Any], ...] = ()
    """Orphaned processes of Nightbench that were ended first."""

    @property
    def wall_error_s(self) -> float | None:
        """Smallest possible error of the wall clock in seconds, less that of the measurement."""
        if self.wall is None:
            return None
        return max(0.0, abs(self.wall.offset_s) - self.wall.error_s)


@dataclass(frozen=True)
class JudgedNode:
    """A preflight with its findings."""

    seen: NodePreflight
    findings: tuple[Finding, ...]

    @property
    def level(self) -> FindingLevel | None:
        """Most severe level of its findings."""
        return worst(self.findings)

    @property
    def fault(self) -> Reason | None:
        """Why the node must not be used; None if it may be."""
        failed = next((f for f in self.findings if f.level is FindingLevel.FAIL), None)
        if failed is None:
            return None
        code, node = ReasonCode.PREFLIGHT_FAILED, self.seen.node
        return Reason(code, node, failed.title, failed.found, failed.expected)


# --- differences between the nodes of a cluster: a gang is as fast as its slowest one ----------

_A_CLUSTER_EACH = "define a separate cluster for each kind of node"
_STATE_MACHINES = (
    "set `machine` for all nodes in the cluster's file, so that each gang is placed on nodes of "
    f"one architecture; or {_A_CLUSTER_EACH}"
)
_TRAITS: tuple[tuple[str, Callable[[Mapping[str, Any]], str], str], ...] = (
    ("machine", lambda d: d["cpu"]["machine"], _STATE_MACHINES),
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


# --- controls ---------------------------------------------------------------------------------

ALL_REDUCE = "all_reduce"
"""Ring all-reduce between all nodes over TCP: bytes reduced per second of the slowest rank."""
ALL_REDUCE_GPUS = "all_reduce_gpus"
"""The same between all GPUs of all nodes over NCCL."""


@dataclass(frozen=True)
class Control:
    """One control measurement of one node, or between several."""

    node: str
    """Name of the node; `n1+n2` for one between nodes."""
    metric: str
    """`matrix_product` (`_tf32`, `_bf16`, `_fp16`), `memory_copy`, `all_reduce` (`_in_node`,
    `_gpus`)."""
    device: str
    """`cpu`, `gpu-0`, `gpus` or `network`."""
    backend: str
    """Library that computed it; values of different backends are not comparable."""
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the values."""
        return statistics.median(self.values)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Key of its series on a cluster."""
        return (self.node, self.metric, self.device, self.backend)


def controls_of(node: str, document: Mapping[str, Any] | None) -> tuple[Control, ...]:
    """Return the control measurements in a node's preflight/1 document."""
    return tuple(
        from_document(Control, {**each, "node": node})
        for each in (document or {}).get("controls", ())
    )


def all_reduce(
    nodes: Sequence[str],
    answers: Sequence[Mapping[str, Any]],
    metric: str = ALL_REDUCE,
    device: str = "network",
) -> Control | None:
    """Return the all-reduce control measurement in GB/s; the slowest rank times each round.

    Each rank answers with `seconds` of its rounds and `bytes` of the reduced vector, and names the
    library that reduced it, if not TCP's sockets, as `backend`.

    Returns:
        None if no round is complete.
    """
    rounds = list(zip(*(answer["seconds"] for answer in answers), strict=False))
    values = tuple(
        answers[0]["bytes"] / max(seconds) / 1e9 for seconds in rounds if max(seconds) > 0
    )
    if not values:
        return None
    backend = answers[0].get("backend", "tcp")
    return Control("+".join(sorted(nodes)), metric, device, backend, "GB/s", values)
