"""When a series is too noisy to be believed, and when it is steady again. Pure.

A noisy series is not deleted: it runs on and is judged, and says nothing until it is steady. What
counts is how much it varies, not where its level lies: a fall is no noise. See `docs/verdicts.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightbench.core.model import HistoryPoint
from nightbench.detection.changes import FEWEST
from nightbench.detection.detector import segment
from nightbench.detection.levels import estimate_level
from nightbench.detection.robust import median
from nightbench.detection.series import series_of

RECENT = 21
"""Nights that say how noisy a series is now: three weeks, so that a weekly pattern is seen."""

IN_A_ROW = 5
"""Nights that have to agree before a series changes sides: one wild night decides nothing."""

RETURN_BELOW = 0.7
"""Part of the limit that a noisy series has to be below: at the limit it would come and go."""


@dataclass(frozen=True)
class Variation:
    """How much a series varies; relative standard deviations."""

    nights: float | None
    """From night to night; None for too few nights."""
    repeats: float | None
    """Within a night, in the median; None where the nights do not know it."""

    @property
    def most(self) -> float | None:
        """The larger one."""
        return max((x for x in (self.nights, self.repeats) if x is not None), default=None)

    def sentence(self, limit: float) -> str:
        """Say which of the two exceeds a limit, and by how much."""
        said = []
        if self.nights is not None and self.nights > limit:
            said.append(f"its nights vary by {self.nights:.1%}")
        if self.repeats is not None and self.repeats > limit:
            said.append(f"the repeats within a night vary by {self.repeats:.1%}")
        return " and ".join(said)


def variation(points: Sequence[HistoryPoint]) -> Variation:
    """How much a series varies over its last `RECENT` nights.

    Args:
        points: comparable nights, oldest first, the night in question last; values positive.
    """
    series = series_of(points[-RECENT:])
    nights = None
    if len(series) >= FEWEST:
        past = estimate_level(series)
        # The detector's own two: what neighbours differ by, and how far nights lie from the level
        # that they belong to. Steps and slow drift are in neither.
        nights = max(past.step_noise, past.level_noise)
    known = series.within[np.isfinite(series.within)]
    return Variation(nights, median(known) if len(known) >= FEWEST else None)


@dataclass(frozen=True)
class NoiseChange:
    """A series becomes noisy, or steady again."""

    noisy: bool
    spread: float
    """What was compared with the limit: a relative standard deviation."""
    limit: float
    sentence: str


def noise_change(
    history: Sequence[HistoryPoint], tonight: HistoryPoint, limit: float, was_noisy: bool
) -> NoiseChange | None:
    """Whether a series changes sides with a night.

    It is noisy once it has varied by more than the limit on `IN_A_ROW` nights running, each with
    the nights before it; it returns once that was below `RETURN_BELOW` of the limit as often.

    Args:
        history: good nights before tonight, oldest first.
        tonight: the night in question.
        limit: `policy.max_spread`.
        was_noisy: how the series stood before this night.

    Returns:
        None where it stays as it was.
    """
    points = [*segment(history, tonight), tonight]
    steady = RETURN_BELOW * limit
    seen = []
    for back in range(IN_A_ROW):
        night = variation(points[: len(points) - back])
        # Too few nights to say anything speak neither for noise nor for calm.
        if night.nights is None or night.most is None:
            return None
        if night.most > steady if was_noisy else night.most <= limit:
            return None
        seen.append(night)
    now, worst = seen[0], max(night.most or 0.0 for night in seen)
    if was_noisy:
        said = f"it varied by no more than {worst:.1%} on {IN_A_ROW} nights running"
        return NoiseChange(
            False, worst, limit, f"{said}, below {steady:.1%} ({RETURN_BELOW:.0%} of the limit)"
        )
    return NoiseChange(
        True, now.most or 0.0, limit, f"{now.sentence(limit)}; the limit is {limit:.1%}"
    )
