"""A case of a night that is measured with a reference build: planned, and as it came back."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from nightbench.core.model.cases import Build
from nightbench.core.model.reasons import Reason


@dataclass(frozen=True)
class PlannedPair:
    """A case, and the reference build that is launched in turn with the night's."""

    case_id: str
    reference: Build
    rounds: int
    """Launches of each build."""
    seconds: float
    """Expected duration, preparation included."""
    is_bridge: bool = False
    """The reference is the one before: the night of a change measures both."""
    left_out: Reason | None = None
    """Why the night has no room for it."""


@dataclass(frozen=True)
class Pair:
    """One launch of each build, one after the other on the same nodes."""

    night: float
    """Throughput in units of work per second."""
    reference: float
    order: str
    """Which came first: `AB` the reference, `BA` the night's build."""


@dataclass(frozen=True)
class MeasuredPair:
    """Result of a case with a reference build: both raw series, and their ratio."""

    case_id: str
    reference: Build
    is_bridge: bool = False
    pairs: tuple[Pair, ...] = ()
    low: float | None = None
    """With `high` the 95 % interval of `ratio`; None for less than three pairs."""
    high: float | None = None
    why: str = ""
    """Why there are no pairs, or fewer than planned."""

    @property
    def ratio(self) -> float | None:
        """The night's build over the reference: geometric mean of the pairs; None without one."""
        logs = [math.log(each.night / each.reference) for each in self.pairs]
        return math.exp(statistics.fmean(logs)) if logs else None

    @property
    def spread(self) -> float | None:
        """(maximum - minimum) / median of the pairs' ratios."""
        ratios = [each.night / each.reference for each in self.pairs]
        return (max(ratios) - min(ratios)) / statistics.median(ratios) if ratios else None

    @property
    def medians(self) -> tuple[float, float] | None:
        """Median throughput of the night's build and of the reference; None without a pair."""
        if not self.pairs:
            return None
        night = statistics.median(each.night for each in self.pairs)
        return night, statistics.median(each.reference for each in self.pairs)


@dataclass(frozen=True)
class PairNight:
    """One night of a series next to one reference build, as its ratio is judged."""

    run_id: str
    reference: str
    """build_id."""
    ratio: float
    spread: float | None
    n: int
    level: float
    """Median throughput of the reference."""
    low: float | None = None
    """With `high` the 95 % interval of `ratio`."""
    high: float | None = None
