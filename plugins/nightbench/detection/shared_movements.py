"""Finds what many series of a night moved by together: a build, a node, a cluster, its network.

A night is a matrix, series by nights (`common_movement`). The common movement of the series of a
factor is a series of its own, whose noise is what such commons vary by, and is judged by the same
evidence as any series. Over the factors of a night, and over nights, the false discovery rate is
held at `RATE`. The factor that explains a movement best gets it, with the series that moved; they
are taken out, and what is left is judged again. See `docs/verdicts.md`.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
from numpy.typing import NDArray

from nightbench.core.model import HistoryPoint, RegressionPolicy
from nightbench.detection.changes import (
    FEWEST,
    LEAST_NIGHTS,
    LEAST_REFERENCE,
    LOOK_BACK,
    TAIL,
    examine_last_night,
)
from nightbench.detection.common_movement import (
    SMALLEST_GROUP,
    Mask,
    changes_of_several,
    column_median,
    common_movement,
    commonest,
    discoveries,
    fit_of_step,
    known_median,
    row_noise,
    rows_of,
    two_groups,
)
from nightbench.detection.detector import new_state_odds
from nightbench.detection.evidence import REFERENCE
from nightbench.detection.factors import Factor, FactorKind, NightRow, SharedMovement
from nightbench.detection.robust import Z_90, Floats
from nightbench.detection.series import Series, series_of

RATE = 0.05
"""False discovery rate over the factors of a night and over the nights of the window."""

FITTED = 3
"""Parameters of a movement: its step, the spread between series, the share that moved."""

MAJORITY = 2 / 3
"""Share of a factor's series that must have moved, as for the causes of alerts."""

PRIOR = 1.0
"""Log odds that series which move together have moved for good, beside those of one series alone:
a second mode or a slow week is one series' own, and hardly shows in the common of many."""

ALIKE = 2.0
"""A series that shows a change by itself, on these nights and of a size that differs from the
common one by this factor at most, moved with it."""

SECOND = 5.0
"""Log likelihood that each further movement of a night costs."""

ALL = 0.9
"""Share of a factor's series from which it is not taken for several movements."""

MOST_RIVALS = 12
"""Discoveries among which two and three are looked for."""

MOST_MOVEMENTS = 8
"""Movements that are looked for in one night."""

_EPOCH = date(1970, 1, 1).toordinal()


def shared_movements(
    rows: Sequence[NightRow],
    policy: RegressionPolicy,
    alone: Mapping[str, tuple[date, float]] | None = None,
) -> list[SharedMovement]:
    """Return the movements that tonight still shows, the clearest first.

    Args:
        rows: series and controls of one cluster's night.
        policy: of the suite.
        alone: name -> first night and relative size of the change that a series shows by itself.
    """
    night = _Night(rows, alone or {})
    found: list[SharedMovement] = []
    for _ in range(MOST_MOVEMENTS):
        best = night.clearest(policy)
        if best is None:
            break
        movement = night.movement(best)
        # The series may differ by so much that their common is none.
        if movement.low > 0 or movement.high < 0:
            found.append(movement)
        night.take_out(best)
    return found


@dataclass(frozen=True)
class _Start:
    """A night on which a movement may have begun, and its size as a logarithm."""

    first: int
    """Index of the night in the matrix."""
    step: float
    below: float = 0.0
    above: float = 0.0
    """Distances of the ends of the common's 90 % interval."""
    score: float = 0.0


@dataclass(frozen=True)
class _Candidate:
    """A movement of a factor, and which rows moved with it."""

    factor: Factor
    start: _Start
    rows: NDArray[np.int64]
    """Of the factor, those with nights on both sides."""
    moved: Floats
    """Probability that each of them moved with it."""
    steps: Floats
    """Each one's own step, shrunk towards the common one."""
    step: float
    gain: float
    """Log likelihood ratio of the two-groups model against no common movement, with the prior."""
    error: float
    """Standard error of `step` by the spread between series."""
    log_e: float
    """Logarithm of the Bayes factor against no movement, by Schwarz's approximation (1978), over
    all nights on which it may have begun."""

    @property
    def members(self) -> set[int]:
        """Rows that moved with it."""
        return set(map(int, self.rows[self.moved > 0.5]))


class _Night:
    """The matrix of a night: logarithms of all series, by their nights' dates."""

    def __init__(self, rows: Sequence[NightRow], alone: Mapping[str, tuple[date, float]]) -> None:
        self._rows = rows
        points = [row.points[-LOOK_BACK:] for row in rows]
        days = {point.at: point.at.date() for each in points for point in each}
        self._dates = sorted(set(days.values()))[-LOOK_BACK:]
        place = {day: k for k, day in enumerate(self._dates)}
        column = {at: place[day] for at, day in days.items() if day in place}
        shape = len(rows), len(self._dates)
        self._values, self._within, self._count = (np.full(shape, np.nan) for _ in range(3))
        self._versions, self._nodes = (np.zeros(shape, dtype=np.int64) for _ in range(2))
        self._names: list[str | None] = [None]
        self._alone: dict[int, tuple[int, float]] = {}
        groups: dict[Factor, Mask] = defaultdict(lambda: np.zeros(shape, dtype=bool))
        codes: dict[str | None, int] = {None: 0, "": 0}
        for i, row in enumerate(rows):
            nights = [point for point in points[i] if point.at in column]
            columns = [column[point.at] for point in nights]
            self._fill(i, columns, nights, codes)
            for factor in row.factors:
                groups[factor][i, columns] = True
            for node in row.usual_nodes:
                groups[Factor(FactorKind.NODE, node)][i, columns] = True
            if row.nodes:
                for k, point in zip(columns, nights, strict=True):
                    if point.run_id in row.nodes:
                        for node in row.usual_nodes:
                            groups[Factor(FactorKind.NODE, node)][i, k] = False
                        for node in row.nodes[point.run_id]:
                            groups[Factor(FactorKind.NODE, node)][i, k] = True
            if row.name in alone and alone[row.name][0] in place:
                since, change = alone[row.name]
                self._alone[i] = place[since], math.log1p(change)
        self._is_control = np.array([row.is_control for row in rows], dtype=bool)
        self._groups = {f: m for f, m in sorted(groups.items()) if self._is_group(m)}
        self._noise = row_noise(self._values)
        self._known = {f: self._prior(f, m) for f, m in self._groups.items()}
        self._stale = set(self._groups)
        self._accepted: dict[Factor, _Candidate] = {}

    def clearest(self, policy: RegressionPolicy) -> _Candidate | None:
        """Return the change that explains most, of the factor that explains it best."""
        for factor in sorted(self._stale):
            self._accepted.pop(factor, None)
            self._examine(factor, policy)
        self._stale = set()
        # What a line shows may be the cluster's, whose own common is not yet believed.
        starts = [c.start for c in self._accepted.values()]
        starts += [_Start(*each) for each in changes_of_several(self._alone.values())]
        nights = {
            (near, start.step < 0): replace(start, first=near)
            for start in reversed(starts)
            for near in (start.first - 1, start.first, start.first + 1)
            if 0 < near <= len(self._dates) - LEAST_NIGHTS
        }
        best: dict[Factor, _Candidate] = {}
        for factor in self._groups:
            moved = [self._candidate(factor, start) for start in nights.values()]
            clearest = max(filter(None, moved), key=lambda c: c.gain + self._fit(c), default=None)
            if clearest is not None:
                best[factor] = clearest
        log_e = {factor: candidate.log_e for factor, candidate in best.items()}
        real = discoveries(log_e, len(self._groups), RATE, LOOK_BACK)
        ranked = sorted((best[factor] for factor in real), key=lambda c: (-c.gain, c.factor))
        if not ranked:
            return None
        # Several movements of a night are not one of all their series, unless all of them moved.
        one, *rivals = ranked[: 1 + MOST_RIVALS]
        if one.moved[~self._is_control[one.rows]].mean() > ALL:
            return one
        members = [each.members for each in rivals]
        apart = [
            [rivals[k] for k in some]
            for number in (2, 3)
            for some in itertools.combinations(range(len(rivals)), number)
            if all(members[i].isdisjoint(members[k]) for i, k in itertools.combinations(some, 2))
        ]
        several = max(apart, key=_worth, default=[])
        return several[0] if _worth(several) > _worth([one]) else one

    def _fit(self, found: _Candidate) -> float:
        """Return how much better the last nights are described with a movement than without."""
        rows, since = found.rows, max(0, len(self._dates) - TAIL)
        first = found.start.first
        before = self._values[rows, max(0, min(since, first) - REFERENCE) : first]
        values = np.where(self._groups[found.factor][rows], self._values[rows], np.nan)[:, since:]
        values = values - np.nanmedian(before, axis=1)[:, None]
        steps = np.where(found.moved > 0.5, found.steps, 0.0)
        return fit_of_step(values, steps, self._noise[rows], first - since)

    def take_out(self, found: _Candidate) -> None:
        """Take a movement out of the series that moved with it."""
        mask = self._groups[found.factor]
        moved = found.moved > 0.5
        for i, step in zip(found.rows[moved], found.steps[moved], strict=True):
            since = np.arange(len(self._dates)) >= found.start.first
            self._values[i, since & mask[i]] -= step
            self._alone.pop(int(i), None)
        changed = found.rows[moved]
        self._stale = {f for f, m in self._groups.items() if m[changed].any()}

    def movement(self, found: _Candidate) -> SharedMovement:
        """Return a candidate as the night's verdict on its factor."""
        moved, control = found.moved > 0.5, self._is_control[found.rows]
        below, above = (
            math.hypot(half, Z_90 * found.error) for half in (found.start.below, found.start.above)
        )
        before, since = (self._states(found, side) for side in (-1, 0))
        return SharedMovement(
            factor=found.factor,
            since=self._dates[found.start.first],
            change=math.expm1(found.step),
            low=math.expm1(found.step - below),
            high=math.expm1(found.step + above),
            members={
                self._rows[i].name: math.expm1(step)
                for i, step in zip(
                    found.rows[moved & ~control], found.steps[moved & ~control], strict=True
                )
            },
            series=int((~control).sum()),
            controls=(int((moved & control).sum()), int(control.sum())),
            score=found.start.score,
            versions=(before[0], since[0]),
            new_nodes=bool(before[1] and since[1] and before[1] != since[1]),
        )

    def _fill(
        self,
        i: int,
        columns: Sequence[int],
        nights: Sequence[HistoryPoint],
        codes: dict[str | None, int],
    ) -> None:
        """Fill a row; versions and fingerprints become numbers, 0 where unknown."""
        series = series_of(nights)
        self._values[i, columns] = series.level
        self._within[i, columns] = series.within / (known_median(series.within) or math.nan)
        self._count[i, columns] = series.count
        for states, texts in (
            (self._versions, [point.framework_version for point in nights]),
            (self._nodes, [point.fingerprint_id for point in nights]),
        ):
            for text in dict.fromkeys(texts):
                if text not in codes:
                    codes[text] = len(self._names)
                    self._names.append(text)
            states[i, columns] = [codes[text] for text in texts]

    def _states(self, found: _Candidate, side: int) -> tuple[str | None, str | None]:
        """Return the commonest version and fingerprint of the nights next to a change."""
        mask, first = self._groups[found.factor][found.rows], found.start.first
        near = mask[:, first:] if side == 0 else mask[:, first - 1 :: -1]
        has, offset = near.any(axis=1), near.argmax(axis=1)
        nights = (first + offset if side == 0 else first - 1 - offset)[has]
        rows = found.rows[has]
        return (
            self._names[commonest(self._versions[rows, nights])],
            self._names[commonest(self._nodes[rows, nights])],
        )

    def _is_group(self, mask: Mask) -> bool:
        return int((~self._is_control[rows_of(mask)]).sum()) >= SMALLEST_GROUP

    def _prior(self, factor: Factor, mask: Mask) -> Floats:
        """Return what new versions or new hardware add to the log odds of each night."""
        states = self._versions if factor.kind is FactorKind.LINE else self._nodes
        rows = rows_of(mask)
        known = np.where(mask[rows], states[rows], 0)
        codes = [commonest(known[:, k]) for k in range(len(self._dates))]
        return PRIOR + new_state_odds([self._names[code] for code in codes])

    def _examine(self, factor: Factor, policy: RegressionPolicy) -> None:
        """Keep the candidate of a factor, if its common changed."""
        mask = self._groups[factor]
        rows = rows_of(mask)
        common, known = common_movement(
            np.where(mask[rows], self._values[rows], np.nan), self._noise[rows]
        )
        nights = np.flatnonzero(known)
        if len(nights) < max(FEWEST, policy.min_history + 1) or nights[-1] != len(self._dates) - 1:
            return
        days: Floats = np.array([self._dates[k].toordinal() - _EPOCH for k in nights], dtype=float)
        within = column_median(np.where(mask[rows], self._within[rows], np.nan))[nights]
        count = column_median(np.where(mask[rows], self._count[rows], np.nan))[nights]
        series = Series(days, common[nights], within, count)
        examined = examine_last_night(series, self._known[factor][nights])
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
                candidate = self._candidate(factor, start)
                if candidate is not None:
                    self._accepted[factor] = candidate
                    break

    def _candidate(self, factor: Factor, begun: _Start) -> _Candidate | None:
        """Return which rows of a factor moved on a night; None where too few did."""
        first = begun.first
        mask = self._groups[factor]
        rows = rows_of(mask)
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
        told = [self._alone.get(row, (-math.inf, 0.0)) for row in map(int, rows)]
        is_told: Mask = np.array([abs(night - first) <= 2 for night, _ in told])
        found = two_groups(steps, errors, begun.step, is_told)
        for k in np.flatnonzero(is_told):
            if 1 / ALIKE <= told[k][1] / found.step <= ALIKE:
                found.moved[k] = 1.0
        members = (found.moved > 0.5) & ~self._is_control[rows]
        if members.sum() < max(SMALLEST_GROUP, MAJORITY * int((~self._is_control[rows]).sum())):
            return None
        return _Candidate(
            factor,
            begun,
            rows,
            found.moved,
            found.steps,
            found.step,
            found.gain + float(self._known[factor][first]),
            found.error,
            found.gain - FITTED / 2 * math.log(len(rows)) - math.log(TAIL),
        )


def _worth(movements: Sequence[_Candidate]) -> float:
    """Return the log likelihood that movements gain together, by how many they are."""
    return sum(each.gain for each in movements) - SECOND * len(movements)
