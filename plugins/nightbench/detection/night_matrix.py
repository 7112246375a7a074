"""The matrix of a night: series by nights, the factors they share, and what is cached of it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.changes import LEAST_REFERENCE, LOOK_BACK
from nightbench.detection.detector import new_state_odds
from nightbench.detection.evidence import REFERENCE
from nightbench.detection.factors import Factor, FactorKind, NightRow
from nightbench.detection.robust import Floats, Indices
from nightbench.detection.series import Series, series_of
from nightbench.detection.two_way_fit import (
    SMALLEST_GROUP,
    Mask,
    column_median,
    commonest,
    known_median,
    nan_median,
    row_noise,
    two_way_fit,
)

_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Group:
    """The rows of a factor."""

    rows: Indices
    """Their indices in the matrix."""
    mask: Mask
    """On which nights each of them had the factor."""
    partial: Indices
    """Places in `rows` of those that had the factor on some of their nights only."""
    prior: Floats
    """Addition of new versions or new hardware to the log odds of each night."""
    repeats: tuple[Floats, Floats]
    """Median scatter within each night, relative to usual, and median count."""


class NightMatrix:
    """Logarithms of all series, by their nights' dates."""

    def __init__(self, rows: Sequence[NightRow], prior: float) -> None:
        points = [row.points[-LOOK_BACK:] for row in rows]
        days = {point.at: point.at.date() for each in points for point in each}
        self.dates = sorted(set(days.values()))[-LOOK_BACK:]
        self.place = {day: k for k, day in enumerate(self.dates)}
        column = {at: self.place[day] for at, day in days.items() if day in self.place}
        shape = len(rows), len(self.dates)
        self.values, within, count = (np.full(shape, np.nan) for _ in range(3))
        self._versions, self._nodes = (np.zeros(shape, dtype=np.int64) for _ in range(2))
        masks: dict[Factor, dict[int, Mask]] = defaultdict(dict)
        codes: dict[str | None, int] = {None: 0}

        def coded(texts: Iterable[str | None]) -> list[int]:
            """Return versions or fingerprints as numbers, 0 if unknown."""
            return [codes.setdefault(text or None, len(codes)) for text in texts]

        for i, row in enumerate(rows):
            nights = [point for point in points[i] if point.at in column]
            columns = [column[point.at] for point in nights]
            series = series_of(nights)
            self.values[i, columns] = series.level
            within[i, columns] = series.within / (known_median(series.within) or math.nan)
            count[i, columns] = series.count
            self._versions[i, columns] = coded(point.framework_version for point in nights)
            self._nodes[i, columns] = coded(point.fingerprint_id for point in nights)
            for factor, on in _factors(row, columns, nights, shape[1]).items():
                masks[factor][i] = on
        self._names = list(codes)
        self.is_control = np.array([row.is_control for row in rows], dtype=bool)
        self.noise = row_noise(self.values)
        self.groups: dict[Factor, Group] = {}
        for factor, masked in sorted(masks.items()):
            at = np.array(list(masked))
            if (~self.is_control[at]).sum() >= SMALLEST_GROUP:
                mask = np.stack(list(masked.values()))
                self.groups[factor] = Group(
                    at,
                    mask,
                    np.flatnonzero((np.isfinite(self.values[at]) & ~mask).any(axis=1)),
                    prior + self._new_states(factor, at, mask),
                    (
                        column_median(np.where(mask, within[at], np.nan)),
                        column_median(np.where(mask, count[at], np.nan)),
                    ),
                )
        self._medians: dict[tuple[int, int], tuple[Floats, Indices]] = {}

    def common(self, factor: Factor) -> tuple[Series, Indices]:
        """Return the common component of a factor as a series, and the columns of its nights."""
        group = self.groups[factor]
        common, known = two_way_fit(
            np.where(group.mask, self.values[group.rows], np.nan), self.noise[group.rows]
        )
        nights = np.flatnonzero(known)
        days: Floats = np.array([self.dates[k].toordinal() - _EPOCH for k in nights], dtype=float)
        within, count = (each[nights] for each in group.repeats)
        return Series(days, common[nights], within, count), nights

    def steps(self, factor: Factor, first: int) -> tuple[Indices, Floats, Floats]:
        """Return the rows of a factor with nights on both sides of one, their steps and errors."""
        group = self.groups[factor]
        before, n_before = self._median(max(0, first - REFERENCE), first, group.rows)
        after, n_after = self._median(first, len(self.dates), group.rows)
        some = group.partial
        if len(some):
            values = self.values[group.rows[some], first:]
            after[some], n_after[some] = nan_median(
                np.where(group.mask[some, first:], values, np.nan), axis=1
            )
        kept = (n_before >= LEAST_REFERENCE) & (n_after >= 1)
        n_before, n_after = n_before[kept], n_after[kept]
        rows = group.rows[kept]
        after_share = np.where(n_after < 3, 1.0, math.pi / 2) / n_after
        errors = self.noise[rows] * np.sqrt(after_share + math.pi / 2 / n_before)
        return rows, after[kept] - before[kept], errors

    def distances(self, factor: Factor, rows: Indices, first: int, since: int) -> Floats:
        """Return the nights from `since` on, as distances from the level before a night.

        Args:
            factor: NaN if a row had another one.
            rows: some of the factor's.
            first: the night.
            since: the first column that is returned.
        """
        group = self.groups[factor]
        before, _ = self._median(max(0, min(since, first) - REFERENCE), first, rows)
        mask = group.mask[np.searchsorted(group.rows, rows), since:]
        values = np.where(mask, self.values[rows, since:], np.nan)
        return values - before[:, None]

    def subtract(self, factor: Factor, rows: Indices, steps: Floats, first: int) -> set[Factor]:
        """Subtract a step from some rows of a factor; return the factors whose rows changed."""
        group = self.groups[factor]
        mask = group.mask[np.searchsorted(group.rows, rows), first:]
        self.values[rows, first:] -= np.where(mask, steps[:, None], 0.0)
        for (start, stop), (middle, _) in self._medians.items():
            if stop > first:
                middle[rows], _ = nan_median(self.values[rows, start:stop], axis=1)
        changed = np.zeros(len(self.values), dtype=bool)
        changed[rows] = True
        return {factor for factor, group in self.groups.items() if changed[group.rows].any()}

    def states(
        self, factor: Factor, rows: Indices, first: int, side: int
    ) -> tuple[str | None, str | None]:
        """Return the commonest version and fingerprint of the nights next to a change."""
        group = self.groups[factor]
        mask = group.mask[np.searchsorted(group.rows, rows)]
        near = mask[:, first:] if side == 0 else mask[:, first - 1 :: -1]
        has, offset = near.any(axis=1), near.argmax(axis=1)
        nights = (first + offset if side == 0 else first - 1 - offset)[has]
        rows = rows[has]
        return (
            self._names[commonest(self._versions[rows, nights])],
            self._names[commonest(self._nodes[rows, nights])],
        )

    def _median(self, start: int, stop: int, rows: Indices) -> tuple[Floats, Indices]:
        """Return the median of the nights of some rows, and of how many nights it is."""
        window = start, stop
        if window not in self._medians:
            self._medians[window] = nan_median(self.values[:, start:stop], axis=1)
        middle, count = self._medians[window]
        return middle[rows], count[rows]

    def _new_states(self, factor: Factor, rows: Indices, mask: Mask) -> Floats:
        states = self._versions if factor.kind is FactorKind.LINE else self._nodes
        known = np.where(mask, states[rows], 0)
        codes = [commonest(known[:, k]) for k in range(len(self.dates))]
        return new_state_odds([self._names[code] for code in codes])


def _factors(
    row: NightRow, columns: Sequence[int], nights: Sequence[HistoryPoint], total: int
) -> dict[Factor, Mask]:
    """Return on which nights a row had each factor; its nodes are factors, too."""
    places: dict[str, list[int]] = defaultdict(list)
    for column, point in zip(columns, nights, strict=True):
        for node in row.on(point.run_id):
            places[node].append(column)
    found: dict[Factor, Sequence[int]] = dict.fromkeys(row.factors, columns)
    found |= {Factor(FactorKind.NODE, node): on for node, on in places.items()}
    masks: dict[Factor, Mask] = {factor: np.zeros(total, dtype=bool) for factor in found}
    for factor, mask in masks.items():
        mask[found[factor]] = True
    return masks if columns else {}
