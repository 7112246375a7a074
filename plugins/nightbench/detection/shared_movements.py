"""Finds what many series of a night moved by together: a build, a node, a cluster, its network.

A night is a matrix, series by nights (`common_movement`). The common movement of the series of a
factor is a series of its own, whose noise is what such commons vary by, and is judged by the same
evidence as any series. Over the factors of a night the false discovery rate is held at `RATE`. The
factor that explains a movement best gets it, with the series that moved; they are taken out, and
what is left is judged again. See `docs/verdicts.md`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from nightbench.core.model import HistoryPoint, RegressionPolicy
from nightbench.detection.changes import (
    FEWEST,
    LEAST_REFERENCE,
    LOOK_BACK,
    Change,
    examine_last_night,
    steps_of,
)
from nightbench.detection.common_movement import (
    SMALLEST_GROUP,
    Mask,
    column_median,
    common_movement,
    discoveries,
    known_median,
    row_noise,
    two_groups,
)
from nightbench.detection.detector import new_state_odds
from nightbench.detection.evidence import REFERENCE
from nightbench.detection.factors import Factor, FactorKind, NightRow, SharedMovement
from nightbench.detection.robust import Z_90, Floats
from nightbench.detection.series import Series, series_of

RATE = 0.05
"""False discovery rate over the factors of a night."""

SECOND = 5.0
"""Log likelihood that a second movement of a night costs."""

MOST_RIVALS = 12
"""Candidates among which two are looked for."""

MOST_MOVEMENTS = 8
"""Movements that are looked for in one night."""

_EPOCH = date(1970, 1, 1).toordinal()


def shared_movements(rows: Sequence[NightRow], policy: RegressionPolicy) -> list[SharedMovement]:
    """Return the movements that tonight still shows, the clearest first.

    Args:
        rows: series and controls of one cluster's night.
        policy: of the suite.
    """
    night = _Night(rows)
    found: list[SharedMovement] = []
    while len(found) < MOST_MOVEMENTS:
        best = night.clearest(policy)
        if best is None:
            break
        found.append(night.movement(best))
        night.take_out(best)
    return found


@dataclass(frozen=True)
class _Candidate:
    """A change of a factor's common, and which rows moved with it."""

    factor: Factor
    change: Change
    first: int
    """Index of its first night in the matrix."""
    rows: NDArray[np.int64]
    """Of the factor, those with nights on both sides."""
    moved: Floats
    """Probability that each of them moved with it."""
    steps: Floats
    """Each one's own step, shrunk towards the common one."""
    step: float
    gain: float
    """Log likelihood ratio of the two-groups model against no common movement."""
    error: float
    """Standard error of `step` by the spread between series."""

    @property
    def members(self) -> set[int]:
        """Rows that moved with it."""
        return set(map(int, self.rows[self.moved > 0.5]))


class _Night:
    """The matrix of a night: logarithms of all series, by their nights' dates."""

    def __init__(self, rows: Sequence[NightRow]) -> None:
        self._rows = rows
        dates = sorted({point.at.date() for row in rows for point in row.points})[-LOOK_BACK:]
        place = {day: k for k, day in enumerate(dates)}
        self._dates = dates
        shape = len(rows), len(dates)
        self._values, self._within, self._count = (np.full(shape, np.nan) for _ in range(3))
        self._points: list[dict[int, HistoryPoint]] = []
        groups: dict[Factor, Mask] = {}
        for i, row in enumerate(rows):
            nights = {place[p.at.date()]: p for p in row.points if p.at.date() in place}
            self._points.append(nights)
            columns = list(nights)
            series = series_of(list(nights.values()))
            self._values[i, columns] = series.level
            self._within[i, columns] = series.within / (known_median(series.within) or math.nan)
            self._count[i, columns] = series.count
            for factor in row.factors:
                groups.setdefault(factor, np.zeros(shape, dtype=bool))[i, columns] = True
            for k, point in nights.items():
                for node in row.nodes.get(point.run_id, ()):
                    factor = Factor(FactorKind.NODE, node)
                    groups.setdefault(factor, np.zeros(shape, dtype=bool))[i, k] = True
        self._is_control = np.array([row.is_control for row in rows], dtype=bool)
        self._groups = {f: m for f, m in sorted(groups.items()) if self._is_group(m)}
        self._noise = row_noise(self._values)
        self._known = {f: self._prior(f, m) for f, m in self._groups.items()}
        self._stale = set(self._groups)
        self._p_values: dict[Factor, float] = {}
        self._accepted: dict[Factor, _Candidate] = {}

    def clearest(self, policy: RegressionPolicy) -> _Candidate | None:
        """Return the change that explains most, of the factor that explains it best."""
        for factor in sorted(self._stale):
            self._accepted.pop(factor, None)
            self._p_values[factor] = self._examine(factor, policy)
        self._stale = set()
        real = discoveries(self._p_values, RATE)
        accepted = [c for f, c in self._accepted.items() if f in real]
        first = max(accepted, key=lambda c: c.gain, default=None)
        if first is None:
            return None
        # What a line shows may be the cluster's, whose own common is not yet believed.
        rivals = [
            self._candidate(factor, first.change, near)
            for factor in sorted(real)
            for near in (first.first - 1, first.first, first.first + 1)
            if 0 < near < len(self._dates)
        ]
        ranked = sorted([first, *filter(None, rivals)], key=lambda c: -c.gain)
        # Two movements of a night are not one of all their series.
        pairs = itertools.combinations(ranked[1:MOST_RIVALS], 2)
        apart = [pair for pair in pairs if pair[0].members.isdisjoint(pair[1].members)]
        two = max(apart, key=lambda pair: pair[0].gain + pair[1].gain, default=None)
        if two is not None and two[0].gain + two[1].gain > ranked[0].gain + SECOND:
            return two[0]
        return ranked[0]

    def take_out(self, found: _Candidate) -> None:
        """Take a movement out of the series that moved with it."""
        mask = self._groups[found.factor]
        moved = found.moved > 0.5
        for i, step in zip(found.rows[moved], found.steps[moved], strict=True):
            since = np.arange(len(self._dates)) >= found.first
            self._values[i, since & mask[i]] -= step
        changed = found.rows[moved]
        self._stale = {f for f, m in self._groups.items() if m[changed].any()}

    def movement(self, found: _Candidate) -> SharedMovement:
        """Return a candidate as the night's verdict on its factor."""
        moved, control = found.moved > 0.5, self._is_control[found.rows]
        shift = math.log1p(found.change.change)
        low, high = (
            found.step + math.copysign(math.hypot(end - shift, Z_90 * found.error), end - shift)
            for end in (math.log1p(found.change.low), math.log1p(found.change.high))
        )
        before, since = (self._states(found, side) for side in (-1, 0))
        return SharedMovement(
            factor=found.factor,
            since=self._dates[found.first],
            change=math.expm1(found.step),
            low=math.expm1(low),
            high=math.expm1(high),
            members={
                self._rows[i].name: math.expm1(step)
                for i, step in zip(
                    found.rows[moved & ~control], found.steps[moved & ~control], strict=True
                )
            },
            series=int((~control).sum()),
            controls=(int((moved & control).sum()), int(control.sum())),
            score=found.change.score,
            versions=(before[0], since[0]),
            new_nodes=bool(before[1] and since[1] and before[1] != since[1]),
        )

    def _states(self, found: _Candidate, side: int) -> tuple[str | None, str | None]:
        """Return the commonest version and fingerprint of the nights next to a change."""
        mask = self._groups[found.factor]
        near = [
            self._points[i][k]
            for i in found.rows
            for k in [_next_night(self._points[i], mask[i], found.first, side)]
            if k is not None
        ]
        return (
            _commonest(point.framework_version for point in near),
            _commonest(point.fingerprint_id for point in near),
        )

    def _is_group(self, mask: Mask) -> bool:
        return int((~self._is_control[_members(mask)]).sum()) >= SMALLEST_GROUP

    def _prior(self, factor: Factor, mask: Mask) -> Floats:
        """Return what new versions or new hardware add to the log odds of each night."""
        states: list[str | None] = []
        rows = _members(mask)
        for k in range(len(self._dates)):
            points = [self._points[i][k] for i in rows if mask[i, k]]
            if factor.kind is FactorKind.LINE:
                states.append(_commonest(p.framework_version for p in points))
            else:
                states.append(_commonest(p.fingerprint_id for p in points))
        return new_state_odds(states)

    def _examine(self, factor: Factor, policy: RegressionPolicy) -> float:
        """Keep the candidate of a factor, if its common changed; return the change's p-value."""
        mask = self._groups[factor]
        rows = _members(mask)
        common, known = common_movement(
            np.where(mask[rows], self._values[rows], np.nan), self._noise[rows]
        )
        nights = np.flatnonzero(known)
        if len(nights) < max(FEWEST, policy.min_history + 1) or nights[-1] != len(self._dates) - 1:
            return 1.0
        days: Floats = np.array([self._dates[k].toordinal() - _EPOCH for k in nights], dtype=float)
        within = column_median(np.where(mask[rows], self._within[rows], np.nan))[nights]
        count = column_median(np.where(mask[rows], self._count[rows], np.nan))[nights]
        series = Series(days, common[nights], within, count)
        examined = examine_last_night(series, self._known[factor][nights])
        if examined is None:
            return 1.0
        scores = np.abs(steps_of(examined.past.calm, examined.past))
        tested = max(int((scores > 0).sum()), 1)
        freedom = min(len(nights) - 2, REFERENCE)
        for change in examined.changes:
            if not change.may_reach(policy.reported_from):
                continue
            tonight, old = series.level[-1], math.log(change.baseline)
            if abs(tonight - old - math.log1p(change.change)) < abs(tonight - old):
                candidate = self._candidate(factor, change, int(nights[change.first]))
                if candidate is not None:
                    self._accepted[factor] = candidate
                    break
        return min(1.0, 2 * tested * float(stdtr(freedom, -scores.max())))

    def _candidate(self, factor: Factor, change: Change, first: int) -> _Candidate | None:
        """Return which rows of a factor moved on a night; None where too few did."""
        mask = self._groups[factor]
        rows = _members(mask)
        start = max(0, first - REFERENCE)
        before = self._values[rows, start:first]
        after = np.where(mask[rows, first:], self._values[rows, first:], np.nan)
        enough = np.isfinite(before).sum(axis=1) >= LEAST_REFERENCE
        kept = enough & (np.isfinite(after).sum(axis=1) >= 1)
        if (kept & ~self._is_control[rows]).sum() < SMALLEST_GROUP:
            return None
        rows, before, after = rows[kept], before[kept], after[kept]
        steps = np.nanmedian(after, axis=1) - np.nanmedian(before, axis=1)
        n_before, n_after = np.isfinite(before).sum(axis=1), np.isfinite(after).sum(axis=1)
        after_share = np.where(n_after < 3, 1.0, math.pi / 2) / n_after
        errors = self._noise[rows] * np.sqrt(after_share + math.pi / 2 / n_before)
        found = two_groups(steps, errors, math.log1p(change.change))
        members = (found.moved > 0.5) & ~self._is_control[rows]
        if members.sum() < max(SMALLEST_GROUP, len(members[~self._is_control[rows]]) / 2):
            return None
        gain = found.gain + float(self._known[factor][first])
        return _Candidate(
            factor, change, first, rows, found.moved, found.steps, found.step, gain, found.error
        )


def _members(mask: Mask) -> NDArray[np.int64]:
    return np.flatnonzero(mask.any(axis=1))


def _next_night(
    points: Mapping[int, HistoryPoint], mask: Mask, first: int, side: int
) -> int | None:
    """Return a row's first night since `first` (`side` 0), or its last before it (-1)."""
    nights = [k for k in points if mask[k] and (k >= first if side == 0 else k < first)]
    return (min if side == 0 else max)(nights, default=None)


def _commonest(states: Iterable[str | None]) -> str | None:
    counted = Counter(state for state in states if state)
    return counted.most_common(1)[0][0] if counted else None
