"""Finds what many series of a night moved by together: a build, a node, a cluster, its network.

A night is a matrix, series by nights (`two_way_fit`). The common component of the series of a
factor is a series of its own. Its noise is the variation of such components. It is judged by the
same evidence as any series. Over the factors of a night, and over nights, the false discovery rate
is kept at `RATE`. The factor that explains a change best gets it, with the series that moved; they
are subtracted, and the residual is judged again. See `docs/detector.md`.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from nightbench.core.model import RegressionPolicy
from nightbench.detection.changes import (
    FEWEST,
    LEAST_NIGHTS,
    LOOK_BACK,
    TAIL,
    examine_last_night,
)
from nightbench.detection.factors import Factor, NightRow, SharedChange
from nightbench.detection.night_matrix import NightMatrix
from nightbench.detection.robust import Z_90, Floats, Indices
from nightbench.detection.two_way_fit import (
    SMALLEST_GROUP,
    Mask,
    TwoGroups,
    changes_of_several,
    discoveries,
    fit_of_step,
    two_groups,
)

RATE = 0.05
"""False discovery rate over the factors of a night and over the nights of the window."""

FITTED = 3
"""Parameters of a change: its step, the spread between series, the share that moved."""

MAJORITY = 2 / 3
"""Share of a factor's series that must have moved, as for the causes of alerts."""

PRIOR = 1.0
"""Log odds of a lasting shared change, in addition to those of a single series. A second level or a
slow week belongs to one series, and hardly shows in the common component of many."""

ALIKE = 2.0
"""A series that shows a change by itself, on these nights and of a size that differs from the
common one by this factor at most, changed together with it."""

SECOND = 5.0
"""Log likelihood that each further change of a night costs."""

ALL = 0.9
"""Share of a factor's series from which it is not taken for several changes."""

MOST_RIVALS = 12
"""Discoveries among which two and three are looked for."""

MOST_CHANGES = 8
"""Changes that are looked for in one night."""


def shared_changes(
    rows: Sequence[NightRow],
    policy: RegressionPolicy,
    alone: Mapping[str, tuple[date, float]] | None = None,
) -> list[SharedChange]:
    """Return the changes that tonight still shows, the clearest first.

    Args:
        rows: series and controls of one cluster's night.
        policy: of the suite.
        alone: name -> first night and relative size of the change that a series shows by itself.
    """
    night = _Night(rows, alone or {})
    found: list[SharedChange] = []
    for _ in range(MOST_CHANGES):
        best = night.clearest(policy)
        if best is None:
            break
        change = night.change(best)
        # The series may differ so much that they have no common change.
        if change.low > 0 or change.high < 0:
            found.append(change)
        night.subtract(best)
    return found


@dataclass(frozen=True)
class _Start:
    """A night on which a change may have begun, and its size as a logarithm."""

    first: int
    """Index of the night in the matrix."""
    step: float
    below: float = 0.0
    above: float = 0.0
    """Distances of the ends of the common's 90 % interval."""
    score: float = 0.0


@dataclass(frozen=True)
class _Candidate:
    """A change of a factor, and which rows moved with it."""

    factor: Factor
    start: _Start
    rows: Indices
    """Series of the factor with nights on both sides."""
    groups: TwoGroups
    gain: float
    """Log likelihood ratio of the two-groups model against no common component, with the prior."""
    log_e: float
    """Logarithm of the Bayes factor against no change, by Schwarz's approximation (1978), over
    all nights on which it may have begun."""

    @property
    def moved(self) -> Mask:
        return self.groups.moved > 0.5

    @property
    def members(self) -> set[int]:
        return set(map(int, self.rows[self.moved]))


class _Night:
    """The search in the matrix of a night."""

    def __init__(self, rows: Sequence[NightRow], alone: Mapping[str, tuple[date, float]]) -> None:
        self._rows = rows
        self._matrix = matrix = NightMatrix(rows, PRIOR)
        self._starts, self._steps = np.full(len(rows), -np.inf), np.zeros(len(rows))
        for i, row in enumerate(rows):
            if row.name in alone and alone[row.name][0] in matrix.place:
                since, change = alone[row.name]
                self._starts[i], self._steps[i] = matrix.place[since], math.log1p(change)
        self._stale = set(matrix.groups)
        self._reported: dict[Factor, _Candidate] = {}

    def clearest(self, policy: RegressionPolicy) -> _Candidate | None:
        """Return the change that explains most, of the factor that explains it best."""
        for factor in sorted(self._stale):
            self._reported.pop(factor, None)
            self._examine(factor, policy)
        self._stale = set()
        # A change of a line may be the cluster's, whose own common change is not yet significant.
        starts = [c.start for c in self._reported.values()]
        own = np.flatnonzero(np.isfinite(self._starts))
        by_itself = zip(map(int, self._starts[own]), map(float, self._steps[own]), strict=True)
        starts += [_Start(*each) for each in changes_of_several(list(by_itself))]
        nights = {
            (near, start.step < 0): replace(start, first=near)
            for start in reversed(starts)
            for near in (start.first - 1, start.first, start.first + 1)
            if 0 < near <= len(self._matrix.dates) - LEAST_NIGHTS
        }
        best: dict[Factor, _Candidate] = {}
        for factor in self._matrix.groups:
            moved = self._candidates(factor, list(nights.values()))
            clearest = max(moved, key=lambda c: c.gain + self._fit(c), default=None)
            if clearest is not None:
                best[factor] = clearest
        log_e = {factor: candidate.log_e for factor, candidate in best.items()}
        real = discoveries(log_e, len(self._matrix.groups), RATE, LOOK_BACK)
        ranked = sorted((best[factor] for factor in real), key=lambda c: (-c.gain, c.factor))
        if not ranked:
            return None
        # Several changes in a night are not one common change, unless all series moved.
        one, *rivals = ranked[: 1 + MOST_RIVALS]
        if one.groups.moved[~self._matrix.is_control[one.rows]].mean() > ALL:
            return one
        members = [each.members for each in rivals]
        apart = [
            [rivals[k] for k in some]
            for number in (2, 3)
            for some in itertools.combinations(range(len(rivals)), number)
            if all(members[i].isdisjoint(members[k]) for i, k in itertools.combinations(some, 2))
        ]
        several = max(apart, key=_total_gain, default=[])
        return several[0] if _total_gain(several) > _total_gain([one]) else one

    def _fit(self, found: _Candidate) -> float:
        """Return how much a change improves the fit of the last nights."""
        rows, since = found.rows, max(0, len(self._matrix.dates) - TAIL)
        first = found.start.first
        values = self._matrix.distances(found.factor, rows, first, since)
        steps = np.where(found.moved, found.groups.steps, 0.0)
        return fit_of_step(values, steps, self._matrix.noise[rows], first - since)

    def subtract(self, found: _Candidate) -> None:
        rows, steps = found.rows[found.moved], found.groups.steps[found.moved]
        self._stale = self._matrix.subtract(found.factor, rows, steps, found.start.first)
        self._starts[rows] = -np.inf

    def change(self, found: _Candidate) -> SharedChange:
        matrix, first = self._matrix, found.start.first
        moved, control = found.moved, matrix.is_control[found.rows]
        groups, series = found.groups, moved & ~control
        below, above = (
            math.hypot(half, Z_90 * groups.error) for half in (found.start.below, found.start.above)
        )
        before, since = (matrix.states(found.factor, found.rows, first, side) for side in (-1, 0))
        return SharedChange(
            factor=found.factor,
            since=matrix.dates[first],
            change=math.expm1(groups.step),
            low=math.expm1(groups.step - below),
            high=math.expm1(groups.step + above),
            members={
                self._rows[i].name: math.expm1(step)
                for i, step in zip(found.rows[series], groups.steps[series], strict=True)
            },
            series=int((~control).sum()),
            controls=(int((moved & control).sum()), int(control.sum())),
            score=found.start.score,
            versions=(before[0], since[0]),
            new_nodes=bool(before[1] and since[1] and before[1] != since[1]),
        )

    def _examine(self, factor: Factor, policy: RegressionPolicy) -> None:
        series, nights = self._matrix.common(factor)
        newest = len(self._matrix.dates) - 1
        if len(nights) < max(FEWEST, policy.min_history + 1) or nights[-1] != newest:
            return
        examined = examine_last_night(series, self._matrix.groups[factor].prior[nights])
        for change in examined.changes if examined else ():
            if not change.may_reach(policy.reported_from):
                continue
            step, off = math.log1p(change.change), series.level[-1] - math.log(change.baseline)
            if abs(off - step) < abs(off):
                start = _Start(
                    int(nights[change.first]),
                    step,
                    step - math.log1p(change.low),
                    math.log1p(change.high) - step,
                    change.score,
                )
                for candidate in self._candidates(factor, [start]):
                    self._reported[factor] = candidate
                    return

    def _candidates(self, factor: Factor, starts: Sequence[_Start]) -> list[_Candidate]:
        """Return which rows of a factor moved on each of several nights, if enough did."""
        by_rows: dict[bytes, list[tuple[_Start, Indices, Floats, Floats]]] = defaultdict(list)
        for start in starts:
            rows, steps, errors = self._matrix.steps(factor, start.first)
            by_rows[rows.tobytes()].append((start, rows, steps, errors))
        found = []
        for several in by_rows.values():
            begun, (rows, *_), all_steps, all_errors = zip(*several, strict=True)
            counted = ~self._matrix.is_control[rows]
            if counted.sum() < SMALLEST_GROUP:
                continue
            own = [np.abs(self._starts[rows] - start.first) <= 2 for start in begun]
            groups = two_groups(
                np.stack(all_steps),
                np.stack(all_errors),
                [start.step for start in begun],
                np.stack(own),
            )
            for start, is_own, each in zip(begun, own, groups, strict=True):
                same, square = self._steps[rows] * each.step, each.step**2
                each.moved[is_own & (same >= square / ALIKE) & (same <= square * ALIKE)] = 1.0
                members = int(((each.moved > 0.5) & counted).sum())
                if members >= max(SMALLEST_GROUP, MAJORITY * int(counted.sum())):
                    prior = float(self._matrix.groups[factor].prior[start.first])
                    log_e = each.gain - FITTED / 2 * math.log(len(rows)) - math.log(TAIL)
                    found.append(_Candidate(factor, start, rows, each, each.gain + prior, log_e))
        return sorted(found, key=lambda candidate: starts.index(candidate.start))


def _total_gain(changes: Sequence[_Candidate]) -> float:
    """Return the log likelihood gain of several changes, less a penalty for each."""
    return sum(each.gain for each in changes) - SECOND * len(changes)
