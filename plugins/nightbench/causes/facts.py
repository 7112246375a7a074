"""The facts around a change: nights before and after it, other series, nodes, controls."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nightbench.core.model import Reason

DROPPED = 0.05
"""Relative loss below which a control measurement counts as steady."""
NOISES = ((8, 4.0), (5, 6.0), (3, 10.0))
"""(nights before the change, loss in multiples of the measurement's noise from which it dropped).
Few nights estimate noise badly. With fewer than in the last row nothing is judged."""
BUSY = 0.10
"""Share of the cores from which foreign work counts."""


@dataclass(frozen=True)
class NightFacts:
    """Software, nodes and disturbances of a case on one night."""

    run_id: str
    at: datetime
    framework_version: str | None = None
    build: str = ""
    """Name of the build: the wheel's digest if it has one."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Versions that the ranks reported, by name."""
    definition_digest: str | None = None
    code_digest: str = ""
    env: Mapping[str, str] | None = None
    """Environment variables of cluster and suite; None: unknown."""
    nodes: tuple[str, ...] = ()
    hardware: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node -> field of its fingerprint -> value, flat."""
    repeats: int = 0
    """Number of launches, failed ones included."""
    disturbed: tuple[Reason, ...] = ()
    """Why repeats were disturbed, each reason once."""
    disturbed_repeats: int = 0
    drift: float | None = None
    """Median over the repeats: last third of the window / first third - 1, of the step times."""


@dataclass(frozen=True)
class Peer:
    """Another series of the cluster, on the night that is explained."""

    case_id: str
    framework: str
    nodes: tuple[str, ...]
    dropped: bool | None
    """True if it dropped on the same nights (for a failure: failed too); None if unknown."""
    framework_version: str | None = None
    dropped_with_others: bool = False
    """It dropped with others of a node, a network or a line that are not this series'."""


@dataclass(frozen=True)
class SharedFactor:
    """The common component of the series that changed with this one, by the night's verdict."""

    kind: str
    """`cluster`, `node`, `network`, `line` or `workload`."""
    name: str
    sentence: str


@dataclass(frozen=True)
class ControlSeries:
    """A control measurement before and since the change; higher is better."""

    node: str
    """`n1+n2` if it is between nodes."""
    metric: str
    device: str
    before: tuple[float, ...]
    """Newest last."""
    since: tuple[float, ...]

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes that it measures."""
        return frozenset(self.node.split("+"))

    @property
    def ratio(self) -> float | None:
        """Median since / median before; None if there are too few values."""
        if len(self.before) < NOISES[-1][0] or not self.since:
            return None
        return statistics.median(self.since) / statistics.median(self.before)

    @property
    def dropped(self) -> bool | None:
        """True if it lost more than its noise; None if there are too few values."""
        ratio = self.ratio
        if ratio is None:
            return None
        middle = statistics.median(self.before)
        noise = 1.4826 * statistics.median(abs(x - middle) for x in self.before) / middle
        times = next(times for few, times in NOISES if len(self.before) >= few)
        return 1 - ratio > max(DROPPED, times * noise)

    @property
    def label(self) -> str:
        """Its name: `memory_copy (cpu) of n1`."""
        return f"{self.metric} ({self.device}) of {self.node}"


@dataclass(frozen=True)
class PreflightFacts:
    """Result of a preflight of one node."""

    node: str
    at: datetime
    hardware: Mapping[str, str] = field(default_factory=dict)
    """Fields by the names that a fingerprint uses, and links and boots."""
    throttled: tuple[str, ...] = ()
    """`GPU 0: hw_thermal_slowdown`."""
    hot: tuple[str, ...] = ()
    """`GPU 0: 84 degrees Celsius before anything runs`."""
    foreign_share: float = 0.0
    foreign: tuple[str, ...] = ()
    """Foreign processes, by command and user."""

    @property
    def has_neighbours(self) -> bool:
        """True if foreign work ran on the node."""
        return self.foreign_share > BUSY or bool(self.foreign)


@dataclass(frozen=True)
class CauseFacts:
    """All facts around the change of one series."""

    case_id: str
    cluster: str
    framework: str
    first_bad: NightFacts
    last_good: NightFacts | None = None
    change: float | None = None
    """Change of the series, value / baseline - 1; negative if it is worse."""
    is_training: bool = False
    """The losses changed, which only software and hardware can do."""
    failure: tuple[Reason, ...] = ()
    """Why there is no value; empty if there is one."""
    faults: Mapping[str, Reason] = field(default_factory=dict)
    """Node -> why it caused the failure."""
    bad: tuple[NightFacts, ...] = ()
    """Nights since the change, with `first_bad`, oldest first."""
    good: tuple[NightFacts, ...] = ()
    """Nights before the change, with `last_good`, oldest first."""
    shared: SharedFactor | None = None
    """None if it moved alone."""
    peers: tuple[Peer, ...] = ()
    controls: tuple[ControlSeries, ...] = ()
    """Control measurements of the whole cluster."""
    preflights_before: tuple[PreflightFacts, ...] = ()
    """The newest of each node before the change."""
    preflights_since: tuple[PreflightFacts, ...] = ()

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that the case ran on since."""
        return frozenset(node for night in (self.first_bad, *self.bad) for node in night.nodes)

    @property
    def boundaries(self) -> list[tuple[NightFacts, NightFacts, str]]:
        """Pairs of nights between which the cause may be, with the objection to a pair.

        The last good and the first bad night come first, without an objection. The pairs before
        and after are possible as well: one unusual night can move the visible change by a night.
        """
        if self.last_good is None:
            return []
        found = [(self.last_good, self.first_bad, "")]
        if len(self.good) > 1:
            early = "the last good night already had it"
            found.append((self.good[-2], self.last_good, early))
        if len(self.bad) > 1:
            found.append((self.first_bad, self.bad[1], "the first bad night did not have it yet"))
        return found
