"""Factors that series share, the rows of a night, and shared changes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum

from nightbench.core.model import HistoryPoint

APART = 5
"""Nights by which the first nights of one change may differ, found on several nights."""


class FactorKind(StrEnum):
    """Kinds of properties that several series can share."""

    CLUSTER = "cluster"
    NODE = "node"
    NETWORK = "network"
    """All series of a cluster that run on several nodes."""
    LINE = "line"
    WORKLOAD = "workload"


@dataclass(frozen=True, order=True)
class Factor:
    """A property that series share and that can change them together."""

    kind: FactorKind
    name: str


@dataclass(frozen=True)
class NightRow:
    """A series of the night that is judged."""

    name: str
    points: Sequence[HistoryPoint]
    """Comparable nights, oldest first, tonight last."""
    factors: Collection[Factor] = ()
    """Those of all its nights."""
    nodes: Mapping[str, Collection[str]] = field(default_factory=dict)
    """run_id -> nodes that it ran on; `usual_nodes` in all other runs."""
    is_control: bool = False
    """A control measurement: it belongs to nodes and cluster, and is not counted as a series."""
    usual_nodes: Collection[str] = ()

    def on(self, run_id: str) -> Collection[str]:
        """Return the nodes that it ran on in a run."""
        return self.nodes.get(run_id, self.usual_nodes)


@dataclass(frozen=True)
class SharedChange:
    """A change that several series of one factor show from the same night."""

    factor: Factor
    since: date
    change: float
    """Relative change of the level."""
    low: float
    high: float
    """90 % interval of `change`."""
    members: Mapping[str, float]
    """Name of each series that changed -> its own relative change."""
    series: int
    """Series of the factor that have nights on both sides."""
    controls: tuple[int, int]
    """Number of control measurements that changed, and number of all."""
    score: float
    """Log odds of the shared change, as in `Change`."""
    versions: tuple[str | None, str | None] = (None, None)
    """Versions of a line, before and since."""
    new_nodes: bool = False
    """Hardware or driver of most of these series changed with it."""

    @property
    def is_drop(self) -> bool:
        """True for a change to lower values."""
        return self.change < 0

    def continues(self, factor: Factor, since: date) -> bool:
        """Return whether a change that is found on another night is this one."""
        return factor == self.factor and abs((since - self.since).days) <= APART

    def touches(self, row: NightRow, point: HistoryPoint) -> bool:
        """Return whether a night of a member is not before the change, and ran on its node."""
        is_there = self.factor.kind is not FactorKind.NODE or self.factor.name in row.on(
            point.run_id
        )
        return is_there and point.at.date() >= self.since

    @property
    def subject(self) -> str:
        """Name of the changed factor: `build 3.4.0 of paddle3`, `node gpu03`."""
        old, new = self.versions
        if self.factor.kind is FactorKind.LINE:
            is_new = bool(old and new and old != new)
            return f"build {new} of {self.factor.name}" if is_new else f"line {self.factor.name}"
        changed = "new hardware or driver of " if self.new_nodes else ""
        if self.factor.kind is FactorKind.NETWORK:
            return f"{changed}the network of {self.factor.name}"
        return f"{changed}{self.factor.kind} {self.factor.name}"

    @property
    def sentence(self) -> str:
        """A clause: `build 3.4.0 of paddle3: 14 of 16 series are slower by 4.1% (90% …`."""
        low, high = sorted(abs(end) for end in (self.low, self.high))
        hit, controls = self.controls
        text = (
            f"{self.subject}: {len(self.members)} of {self.series} series are "
            f"{'slower' if self.is_drop else 'faster'} by {abs(self.change):.1%} "
            f"(90% interval {low:.1%} to {high:.1%}) since {self.since.isoformat()}"
        )
        return f"{text}; {hit} of {controls} control measurements changed too" if controls else text


def without_shared(row: NightRow, changes: Sequence[SharedChange]) -> list[HistoryPoint]:
    """Return the points of a series with the changes that it shared subtracted."""
    points = list(row.points)
    for change in changes:
        if row.name in change.members:
            points = [
                replace(point, value=point.value / (1 + change.members[row.name]))
                if change.touches(row, point)
                else point
                for point in points
            ]
    return points
