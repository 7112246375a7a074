"""What is known around a change: the two nights beside it, other series, nodes, controls."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nightbench.core.model import Reason

FELL = 0.05
"""A control that lost less than this is steady."""
NOISES = ((8, 4.0), (5, 6.0), (3, 10.0))
"""Figures before the change, and how many times its own noise a control must lose: few figures
know little of their noise. With fewer than the last it says nothing."""
BUSY = 0.10
"""Foreign share of the cores from which a node is not alone."""


@dataclass(frozen=True)
class NightFacts:
    """What a case ran as on one night."""

    run_id: str
    at: datetime
    framework_version: str | None = None
    build: str = ""
    """What names the build: the wheel's digest where it has one."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Versions that the ranks told, by name."""
    definition_digest: str | None = None
    code_digest: str = ""
    nodes: tuple[str, ...] = ()
    hardware: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node -> field of its fingerprint -> value, flat."""
    repeats: int = 0
    """All launches, good or not."""
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
    fell: bool | None
    """Since the same nights; None where its verdict does not say. Of a failure: failed too."""
    framework_version: str | None = None


@dataclass(frozen=True)
class ControlSeries:
    """A control measurement before and since the change; more is better."""

    node: str
    """`n1+n2` where it is between nodes."""
    metric: str
    device: str
    before: tuple[float, ...]
    """Newest last."""
    since: tuple[float, ...]

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes that it is of."""
        return frozenset(self.node.split("+"))

    @property
    def ratio(self) -> float | None:
        """Median since / median before; None where one of them is not known well enough."""
        if len(self.before) < NOISES[-1][0] or not self.since:
            return None
        return statistics.median(self.since) / statistics.median(self.before)

    @property
    def fell(self) -> bool | None:
        """Whether it lost more than its noise; None where that is not known."""
        ratio = self.ratio
        if ratio is None:
            return None
        middle = statistics.median(self.before)
        noise = 1.4826 * statistics.median(abs(x - middle) for x in self.before) / middle
        times = next(times for few, times in NOISES if len(self.before) >= few)
        return 1 - ratio > max(FELL, times * noise)

    @property
    def says(self) -> str:
        """The figure in words: `memory_copy (cpu) of n1`."""
        return f"{self.metric} ({self.device}) of {self.node}"


@dataclass(frozen=True)
class PreflightFacts:
    """A preflight of one node."""

    node: str
    at: datetime
    hardware: Mapping[str, str] = field(default_factory=dict)
    """What it shares with a fingerprint, by the same names, and links and boots."""
    throttled: tuple[str, ...] = ()
    """`GPU 0: hw_thermal_slowdown`."""
    hot: tuple[str, ...] = ()
    """`GPU 0: 84 degrees Celsius before anything runs`."""
    foreign_share: float = 0.0
    foreign: tuple[str, ...] = ()
    """Foreign processes, named."""

    @property
    def has_neighbours(self) -> bool:
        """Whether others worked there."""
        return self.foreign_share > BUSY or bool(self.foreign)


@dataclass(frozen=True)
class Facts:
    """All that is known around the change of one series."""

    case_id: str
    cluster: str
    framework: str
    first_bad: NightFacts
    last_good: NightFacts | None = None
    change: float | None = None
    """Of the series: value / baseline - 1."""
    failure: tuple[Reason, ...] = ()
    """Why it came back without a value; empty where it has one."""
    faults: Mapping[str, Reason] = field(default_factory=dict)
    """Node -> why the failure is put down to it."""
    bad: tuple[NightFacts, ...] = ()
    """All nights since, `first_bad` too, oldest first."""
    good: tuple[NightFacts, ...] = ()
    """Some nights before, `last_good` too, oldest first."""
    peers: tuple[Peer, ...] = ()
    controls: tuple[ControlSeries, ...] = ()
    """Of the whole cluster."""
    looks_before: tuple[PreflightFacts, ...] = ()
    """The newest of each node before the change."""
    looks_since: tuple[PreflightFacts, ...] = ()

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that the case ran on since."""
        return frozenset(node for night in (self.first_bad, *self.bad) for node in night.nodes)

    @property
    def turns(self) -> list[tuple[NightFacts, NightFacts, str]]:
        """Pairs of nights between which the cause may lie, with what speaks against a pair.

        The last good night and the first bad one; and a night to either side: one lucky or unlucky
        night hides on which of them a series fell.
        """
        if self.last_good is None:
            return []
        found = [(self.last_good, self.first_bad, "")]
        if len(self.good) > 1:
            early = "the last good night had it already"
            found.append((self.good[-2], self.last_good, early))
        if len(self.bad) > 1:
            found.append((self.first_bad, self.bad[1], "the first bad night did not have it yet"))
        return found
