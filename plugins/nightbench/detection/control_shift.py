"""Compares the change of a series with the control measurements of the same nodes.

A control measurement does the same work every night without any framework. If it dropped with a
series, the node is suspected before the framework. The verdict stays; this is added as evidence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightbench.detection.evidence import REFERENCE
from nightbench.detection.levels import NOISE_FLOOR
from nightbench.detection.robust import median, noise_of_differences, scale

FEWEST_BEFORE, FEWEST_SINCE = 5, 2
"""Fewest nights with a control measurement, before a change and since."""

CLEAR = 3.0
"""Standard errors from which a control measurement counts as changed."""

MOSTLY, PARTLY = 0.6, 0.2
"""Shares of a change that its control measurement explains: from here on mostly, or partly."""


@dataclass(frozen=True)
class ControlShift:
    """Shift of the control measurements at a change of a series, relative to the level before."""

    change: float
    low: float
    high: float
    """95 % interval of `change`."""
    share: float
    """Part of the series' log change that the control measurement explains, 0 to 1."""
    remains: float
    """Residual change of the series after the control measurement's is subtracted."""
    before: int
    since: int
    """Nights with a control measurement, before the change and since."""

    @property
    def explains(self) -> bool:
        """Whether the control measurements explain most of the change."""
        return self.share >= MOSTLY

    @property
    def explains_a_part(self) -> bool:
        """Whether the control measurements explain a part of the change that counts."""
        return self.share >= PARTLY


def control_shift(figures: Sequence[float | None], first: int, step: float) -> ControlShift | None:
    """Return the shift of the control measurements at a change; None if too few nights have one.

    Args:
        figures: each night's control measurement, oldest first, up to the night of the judgement;
            None if there is none. Higher is better, as for the series.
        first: the first night at the new level.
        step: the series' change, as a logarithm.
    """
    control = np.log(np.array(figures, dtype=float))
    earlier, since = control[:first], control[first:]
    earlier = earlier[np.isfinite(earlier)][-REFERENCE:]
    since = since[np.isfinite(since)]
    if len(earlier) < FEWEST_BEFORE or len(since) < FEWEST_SINCE:
        return None
    level = median(earlier)
    noise = max(scale(earlier), noise_of_differences(earlier), NOISE_FLOOR)
    # A median's variance is pi / 2 times the mean's; the median of two nights is their mean.
    after = (1.0 if len(since) < 3 else math.pi / 2) / len(since)
    error = noise * math.sqrt(math.pi / 2 / len(earlier) + after)
    shift = median(since) - level
    moved = abs(shift) > CLEAR * error and shift * step > 0
    return ControlShift(
        change=math.expm1(shift),
        low=math.expm1(shift - 1.96 * error),
        high=math.expm1(shift + 1.96 * error),
        share=min(shift / step, 1.0) if moved else 0.0,
        remains=math.expm1(step - shift) if moved else math.expm1(step),
        before=len(earlier),
        since=len(since),
    )
