"""Decides when a series is too noisy for alerts, and when it is steady again. Pure.

A noisy series is still measured and judged, but opens no alert until it is steady. Only its
variation counts, not its level: a drop is no noise. See `docs/detector-tools.md`.
"""

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
"""Nights from which the present noise is estimated: three weeks, for weekly patterns."""

IN_A_ROW = 5
"""Successive nights that must agree before a series becomes noisy or steady."""

RETURN_BELOW = 0.7
"""Part of the limit below which a noisy series is steady again: hysteresis."""


@dataclass(frozen=True)
class Variation:
    """Variation of a series, as relative standard deviations."""

    nights: float | None
    """From night to night; None for too few nights."""
    repeats: float | None
    """Within a night: median over the nights; None if unknown."""

    @property
    def most(self) -> float:
        """The larger one."""
        return max(self.nights or 0.0, self.repeats or 0.0)

    def sentence(self, limit: float) -> str:
        """Return a clause that names which of the two exceeds a limit, and their values."""
        parts = []
        if self.nights and self.nights > limit:
            parts.append(f"its night-to-night noise is {self.nights:.1%}")
        if self.repeats and self.repeats > limit:
            parts.append(f"the noise of repeats within a night is {self.repeats:.1%}")
        return " and ".join(parts)


def variation(points: Sequence[HistoryPoint]) -> Variation:
    """Return the variation of a series of comparable nights over its last `RECENT` ones."""
    series = series_of(points[-RECENT:])
    # Both estimates of the detector exclude steps and slow drift.
    nights = estimate_level(series).noise if len(series) >= FEWEST else None
    known = series.within[np.isfinite(series.within)]
    return Variation(nights, median(known) if len(known) >= FEWEST else None)


@dataclass(frozen=True)
class NoiseChange:
    """The event that a series becomes noisy, or steady again."""

    noisy: bool
    spread: float
    """Value that was compared with the limit: a relative standard deviation."""
    limit: float
    sentence: str


def noise_change(
    history: Sequence[HistoryPoint], tonight: HistoryPoint, limit: float, was_noisy: bool
) -> NoiseChange | None:
    """Return the event that a series becomes noisy or steady tonight; None if there is none.

    It becomes noisy when its variation exceeds the limit on `IN_A_ROW` successive nights, and
    steady again when the variation is below `RETURN_BELOW` of the limit on as many. `history` are
    the good nights before tonight, oldest first; `limit` is `policy.max_spread`.
    """
    points = [*segment(history, tonight), tonight]
    steady = RETURN_BELOW * limit
    worst = 0.0
    for back in reversed(range(IN_A_ROW)):
        night = variation(points[: len(points) - back])
        # With too few nights the variation is unknown: no event.
        if night.nights is None:
            return None
        if night.most > steady if was_noisy else night.most <= limit:
            return None
        worst = max(worst, night.most)
    if was_noisy:
        sentence = (
            f"its noise was {worst:.1%} at most on {IN_A_ROW} nights in a row, below "
            f"{steady:.1%} ({RETURN_BELOW:.0%} of the limit)"
        )
        return NoiseChange(False, worst, limit, sentence)
    return NoiseChange(
        True, night.most, limit, f"{night.sentence(limit)}; the limit is {limit:.1%}"
    )
