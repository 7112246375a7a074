"""Follows series night by night and keeps the changes that were detected."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace

import numpy as np

from nightbench.detection.changes import LEAST_NIGHTS, Change, NightExamined, examine_last_night
from nightbench.detection.robust import median
from nightbench.detection.series import Series
from nightbench.detection.visits import TAILS

SAME = 7
"""Nights by which the date of a change may move as more nights arrive."""


class Follower:
    """Judges one series night by night and keeps its changes.

    The result equals a replay from the start, however the nights are passed to `extend`. Nights
    whose distance from the level cannot have made a change believable are passed over. The level
    and the noise of that test are those of the last examined night: in rare cases a change is
    detected a night later than by `examine_last_night` on every night.

    Args:
        min_change: smallest relative change that is kept.
    """

    def __init__(self, min_change: float = 0.0) -> None:
        self._min_change = min_change
        self._seen: Series | None = None
        self.changes: list[Change] = []
        """Changes so far, in the order of their detection."""
        self._detected: list[Change] = []
        """The same, each with the size of the night of its detection."""
        self._examined: NightExamined | None = None
        self._odds: list[float] = []
        """Most that the odds of a fall and of a rise can be by now."""

    def extend(self, series: Series) -> list[Change]:
        """Judge the new nights of `series` and return all its changes so far.

        A series with another past than before is replayed from its start.
        """
        seen = 0
        if self._seen is not None and _continues(self._seen, series):
            seen = len(self._seen)
        else:
            self.changes, self._detected, self._examined = [], [], None
        for night in range(seen, len(series)):
            if self._examined is not None and self._is_quiet(float(series.level[night])):
                continue
            self._examined = examine_last_night(series.part(0, night + 1))
            if self._examined is not None:
                self._odds = [self._examined.fall_odds, self._examined.rise_odds]
                for change in self._examined.changes:
                    self._keep(change)
        self._seen = series
        return self.changes

    def _is_quiet(self, level: float) -> bool:
        """Return whether a night cannot have made a change believable since the last examined one.

        The most that it can add is what its distance from the level says for a change.
        """
        assert self._examined is not None
        off = (level - self._examined.level) / self._examined.noise
        self._odds[off > 0] += (TAILS + 1) / 2 * math.log1p(off * off / TAILS)
        return max(self._odds) < 0

    def _keep(self, change: Change) -> None:
        near = [i for i, known in enumerate(self.changes) if _near(change, known)]
        if any(not _is_second_step(change, self.changes[i]) for i in near):
            if len(near) == 1 and _is_larger(change, known := self.changes[near[0]]):
                # It has grown so soon that both steps are dated to the first.
                self.changes[near[0]] = replace(change, first=known.first, detected=known.detected)
        elif change.may_reach(self._min_change):
            for i in near:
                self.changes[i] = self._detected[i]
            self.changes.append(change)
            self._detected.append(change)


class Followers:
    """Cache of followers by series name; the least recently used one is dropped."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._by_name: OrderedDict[str, Follower] = OrderedDict()

    def extend(self, name: str, series: Series) -> list[Change]:
        """See `Follower.extend`."""
        follower = self._by_name.setdefault(name, Follower())
        self._by_name.move_to_end(name)
        while len(self._by_name) > self._most:
            self._by_name.popitem(last=False)
        return follower.extend(series)


def find_changes(series: Series, min_change: float = 0.0) -> list[Change]:
    """Return all changes of a history, as they are detected night by night.

    The size of a change soon after another is that of its own step.
    """
    found = Follower(min_change).extend(series)
    return [_own_step(series, change, found) for change in found]


def _near(change: Change, known: Change) -> bool:
    """Return whether two changes have the same direction and are at most a week apart."""
    return change.falls == known.falls and abs(change.first - known.first) <= SAME


def _is_second_step(change: Change, known: Change) -> bool:
    """Return whether a change lies later and beyond the interval of another."""
    farther = change.high < known.low if change.falls else change.low > known.high
    return farther and change.first >= known.first + LEAST_NIGHTS


def _is_larger(change: Change, known: Change) -> bool:
    """Return whether the interval of a change lies beyond what another was estimated to be."""
    return change.high < known.change if change.falls else change.low > known.change


def _own_step(series: Series, change: Change, others: list[Change]) -> Change:
    """Return a change relative to the level since the one before it, not to the level before both.

    Where the level between is too young to be the present one, both are detected against the level
    before.
    """
    start = change.first - change.reference
    between = [other.first for other in others if start < other.first < change.first]
    if not between:
        return change
    level = math.exp(median(series.level[max(between) : change.first]))
    factor = change.baseline / level
    return replace(
        change,
        change=(1 + change.change) * factor - 1,
        low=(1 + change.low) * factor - 1,
        high=(1 + change.high) * factor - 1,
        baseline=level,
    )


def _continues(seen: Series, series: Series) -> bool:
    n = len(seen)
    return len(series) >= n and all(
        np.array_equal(getattr(seen, name), getattr(series, name)[:n], equal_nan=True)
        for name in ("day", "level", "within", "count")
    )
