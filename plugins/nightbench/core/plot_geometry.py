"""The geometry of a plot of one series, for every output: PNG in messages, SVG on pages. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class PlotArea:
    """Size of a picture and its margins, in pixels or in units of a view box."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    steps: int
    """About so many figures stand on the y axis."""


@dataclass(frozen=True)
class PlotGeometry:
    """Where dates and values are in an area. The y axis does not begin at zero."""

    area: PlotArea
    first: datetime
    last: datetime
    low: float
    """Value at the lower edge."""
    high: float
    """Value at the upper edge."""
    steps: tuple[float, ...]
    """Round values between both, for the y axis."""

    @classmethod
    def of(cls, area: PlotArea, dates: Sequence[datetime], values: Sequence[float]) -> PlotGeometry:
        """The geometry that shows all values, one at least, with some air; dates ascend."""
        least, most = min(values), max(values)
        air = max((most - least) * 0.15, abs(most) * 0.02, 1e-9)
        low, high = least - air, most + air
        rough = (high - low) / area.steps
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.75)
        begin, end = math.ceil(low / step), math.floor(high / step)
        steps = tuple(k * step for k in range(begin, end + 1))
        return cls(area, dates[0], dates[-1], low, high, steps)

    def x(self, at: datetime) -> float:
        """Distance of a date from the left edge; dates outside are on the border."""
        span = (self.last - self.first).total_seconds()
        share = (at - self.first).total_seconds() / span if span else 0.5
        width = self.area.width - self.area.left - self.area.right
        return round(self.area.left + width * min(max(share, 0.0), 1.0), 1)

    def y(self, value: float) -> float:
        """Distance of a value from the upper edge."""
        height = self.area.height - self.area.top - self.area.bottom
        return round(self.area.top + height * (self.high - value) / (self.high - self.low), 1)
