"""Follows series night by night and keeps the changes that were detected."""

import math
from dataclasses import replace

import numpy as np

from nightbench.detection.changes import (
    CLEAR_STEP,
    LEAST_NIGHTS,
    TAIL,
    UNLIKELY,
    Change,
    NightExamined,
    examine_last_night,
    steps_of,
)
from nightbench.detection.evidence import REFERENCE
from nightbench.detection.excursions import TAILS
from nightbench.detection.robust import median
from nightbench.detection.series import Series

SAME = 7
"""Nights by which the date of a change may move as more nights arrive."""

UNEXAMINED = 45
"""Nights after which level and noise are estimated again; a fifth of a young window's nights."""

CALM = 3.5
"""Noise scales beyond which a single night counts no more."""

ALLOWED, FARTHEST = 0.3, 3.5
"""Part of each night's noise scale that a cumulative sum forgets, and the sum from which steps are
computed: those of `CLEAR_STEP` reach it."""


class IncrementalDetector:
    """Judges one series night by night and keeps its changes.

    The result equals a replay from the start, however the nights are passed to `extend`. Nights
    that cannot have made a change believable are passed over: those near the level, and those that
    with the nights before them are no step of `CLEAR_STEP`. The level and the noise of that test
    are those of the last examined night: in rare cases a change is detected a night later than by
    `examine_last_night` on every night.

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
        """Most that the odds of a drop and of an increase can be by now."""
        self._level = 0.0
        """Logarithm of the level on the examined night."""
        self._sums: list[float] = []
        """Cumulative sums of drops and of increases, in noise scales."""
        self._calm: list[float] = []
        """Its winsorised nights and those since."""
        self._unexamined = 0
        """Nights since."""

    def extend(self, series: Series) -> list[Change]:
        """Judge the new nights of `series` and return all its changes so far.

        A series with another past than before is replayed from its start.
        """
        if self._seen is None or not _continues(self._seen, series):
            self._seen, self._examined = None, None
            self.changes, self._detected = [], []
        for night in range(len(self._seen or ()), len(series)):
            if self._is_unchanged(series, night):
                continue
            self._examined = examine_last_night(series.part(0, night + 1))
            if self._examined is not None:
                self._start_waiting(self._examined)
                for change in (*self._examined.changes, *self._examined.since):
                    self._add_or_replace(change)
        self._seen = series
        return self.changes

    def _start_waiting(self, examined: NightExamined) -> None:
        """Store what the following nights are compared with."""
        past = examined.past
        self._level = median(past.values[past.base :][-REFERENCE:])
        self._odds = [examined.drop_odds, examined.rise_odds]
        self._sums = [0.0, 0.0]
        self._calm = list(map(float, past.calm))
        for value in self._calm[max(past.base, len(self._calm) - TAIL) :]:
            self._add((value - self._level) / past.noise)
        self._unexamined = 0
        if examined.changes:
            # The next change starts from the new level, which has few nights.
            change = examined.changes[0]
            self._level = math.log(change.baseline) + math.log1p(change.change)
            self._odds = [UNLIKELY, UNLIKELY]

    def _add(self, off: float) -> None:
        """Add a night's distance from the level to the cumulative sums."""
        self._sums = [
            max(0.0, self._sums[0] - off - ALLOWED),
            max(0.0, self._sums[1] + off - ALLOWED),
        ]

    def _is_unchanged(self, series: Series, night: int) -> bool:
        """Return whether a night cannot have made a change believable since the last examined one.

        The most that it can add is what its distance from the level says for a change. If that
        is enough, the last nights must also lie on another level than those before.
        """
        if self._examined is None:
            return False
        past = self._examined.past
        value = float(series.level[night]) - float(past.weekday[int(series.day[night]) % 7])
        off = (value - self._level) / past.noise
        self._odds[off > 0] += (TAILS + 1) / 2 * math.log1p(off * off / TAILS)
        calm = max(-CALM, min(off, CALM))
        self._calm.append(self._level + calm * past.noise)
        self._add(calm)
        self._unexamined += 1
        hopeful = [side for side in (0, 1) if self._odds[side] >= 0]
        if not hopeful:
            return True
        if self._examined.changes or self._unexamined > min(UNEXAMINED, len(past.calm) // 5):
            return False
        if all(self._sums[side] < FARTHEST for side in hopeful):
            return True
        steps = steps_of(np.array(self._calm), past)
        sides = (-float(steps.min()), float(steps.max()))
        return all(sides[side] < CLEAR_STEP for side in hopeful)

    def _add_or_replace(self, change: Change) -> None:
        near = [i for i, known in enumerate(self.changes) if _near(change, known)]
        if any(not _is_second_step(change, self.changes[i]) for i in near):
            if len(near) == 1 and _is_larger(change, known := self.changes[near[0]]):
                # The change grew so soon that both steps get the date of the first.
                self.changes[near[0]] = replace(change, first=known.first, detected=known.detected)
        elif change.may_reach(self._min_change):
            for i in near:
                self.changes[i] = self._detected[i]
            self.changes.append(change)
            self._detected.append(change)


def find_changes(series: Series, min_change: float = 0.0) -> list[Change]:
    """Return all changes of a history, as they are detected night by night.

    The size of a change soon after another is that of its own step.
    """
    found = IncrementalDetector(min_change).extend(series)
    return [_own_step(series, change, found) for change in found]


def _near(change: Change, known: Change) -> bool:
    """Return whether two changes have the same direction and are at most a week apart."""
    return change.is_drop == known.is_drop and abs(change.first - known.first) <= SAME


def _is_second_step(change: Change, known: Change) -> bool:
    """Return whether a change is later than another and outside its interval."""
    farther = change.high < known.low if change.is_drop else change.low > known.high
    return farther and change.first >= known.first + LEAST_NIGHTS


def _is_larger(change: Change, known: Change) -> bool:
    """Return whether all of a change's interval is larger than another's estimate."""
    return change.high < known.change if change.is_drop else change.low > known.change


def _own_step(series: Series, change: Change, others: list[Change]) -> Change:
    """Return a change relative to the level since the one before it, not to the level before both.

    If the level between is too young to be the present one, both are detected against the level
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
