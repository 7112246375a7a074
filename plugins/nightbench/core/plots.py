"""The plots of the report, the published site and messages: a series, a trend, scaling. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nightbench.core.drawing import Drawing

_SPARK = (120, 28)
_INTERVAL = (120, 16)
_CHARACTER = 0.55
"""Mean width of a character, as a share of its height."""


@dataclass(frozen=True)
class PlotArea:
    """Size of a plot and its margins."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    steps: int
    """Approximate number of values on the y axis."""
    text: int = 10
    """Height of its texts."""


@dataclass(frozen=True)
class Axes:
    """Two axes in an area."""

    area: PlotArea
    first: float
    last: float
    low: float
    """Value at the lower edge."""
    high: float
    """Value at the upper edge."""

    def x(self, value: float) -> float:
        """Distance of a value from the left edge; values outside are on the border."""
        span = self.last - self.first
        share = (value - self.first) / span if span else 0.5
        width = self.area.width - self.area.left - self.area.right
        return self.area.left + width * min(max(share, 0.0), 1.0)

    def y(self, value: float) -> float:
        """Distance of a value from the upper edge."""
        height = self.area.height - self.area.top - self.area.bottom
        return self.area.top + height * (self.high - value) / (self.high - self.low)

    def begin(self, label: str) -> Drawing:
        """Return a drawing with lines and values of the y axis."""
        area = self.area
        drawing = Drawing(area.width, area.height, label)
        rough = (self.high - self.low) / area.steps
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.75)
        for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            y = self.y(number * step)
            drawing.line([(area.left, y), (area.width - area.right, y)], "line")
            at = (area.left - 0.6 * area.text, y + 0.35 * area.text)
            drawing.write(at, f"{number * step:.6g}", area.text, anchor="end")
        return drawing


@dataclass(frozen=True)
class Mark:
    """An event in a series, drawn as a line with a label."""

    at: datetime
    label: str
    ink: str = "soft"


def series_plot(
    area: PlotArea,
    dates: Sequence[datetime],
    values: Sequence[float],
    label: str,
    *,
    ranges: tuple[Sequence[float], Sequence[float]] = ((), ()),
    baseline: float | None = None,
    marks: Sequence[Mark] = (),
    ink: str = "accent",
) -> tuple[Drawing, Axes]:
    """Draw the nights of a series, oldest first; the y axis does not begin at zero.

    Args:
        area: of the plot.
        dates: of the nights.
        values: their medians.
        label: says in words what the plot shows.
        ranges: smallest and largest repeat of each night, drawn as a band.
        baseline: of the verdict, drawn as a dashed line.
        marks: events, each drawn as a line down.
        ink: of the line through the medians.
    """
    low, high = ranges
    levels = [*values, *low, *high, *(() if baseline is None else (baseline,))]
    least, most = min(levels), max(levels)
    air = max((most - least) * 0.15, abs(most) * 0.02, 1e-9)
    times = [at.timestamp() for at in dates]
    axes = Axes(area, times[0], times[-1], least - air, most + air)
    drawing = axes.begin(label)
    left, right = area.left, area.width - area.right
    bottom = area.height - area.bottom
    upper = [(axes.x(at), axes.y(value)) for at, value in zip(times, high, strict=False)]
    lower = [(axes.x(at), axes.y(value)) for at, value in zip(times, low, strict=False)]
    if upper:
        drawing.area([*upper, *reversed(lower)], "accent", 0.18)
    if baseline is not None:
        drawing.line([(left, axes.y(baseline)), (right, axes.y(baseline))], "soft", dashed=True)
    for at, anchor in ((left, "start"), (right, "end")):
        date = dates[0] if anchor == "start" else dates[-1]
        drawing.write((at, bottom + 1.4 * area.text), f"{date:%Y-%m-%d}", area.text, anchor=anchor)
    free = 0.0
    for mark in sorted(marks, key=lambda mark: mark.at):
        x = axes.x(mark.at.timestamp())
        drawing.line([(x, area.top - 4), (x, bottom)], mark.ink, dashed=True)
        width = _CHARACTER * area.text * len(mark.label)
        begin = min(x, right - width)
        if begin >= free:
            drawing.write((begin, area.top - 8), mark.label, area.text, mark.ink)
            free = begin + width + area.text
    points = [(axes.x(at), axes.y(value)) for at, value in zip(times, values, strict=True)]
    drawing.line(points, ink, 1.5)
    return drawing, axes


def sparkline(values: Sequence[float]) -> Drawing:
    """Draw the newest nights of a series; its height is at least 4 % of the values."""
    width, height = _SPARK
    least, most = min(values), max(values)
    air = max(most - least, 0.04 * abs(most), 1e-9) / 2
    middle = (least + most) / 2
    area = PlotArea(width, height, 0, 0, 3, 3, 0)
    axes = Axes(area, 0, max(1, len(values) - 1), middle - air, middle + air)
    drawing = Drawing(width, height)
    drawing.line([(axes.x(i), axes.y(value)) for i, value in enumerate(values)], "accent", 1.5)
    return drawing


def interval_plot(low: float, middle: float, high: float, most: float, label: str) -> Drawing:
    """Draw the interval of a change between -`most` and `most`; currentColor is its colour."""
    width, height = _INTERVAL
    axes = Axes(PlotArea(width, height, 4, 4, 0, 0, 0), -most, most, 0, 1)
    drawing = Drawing(width, height, label)
    drawing.line([(axes.x(0), 0), (axes.x(0), height)], "soft", dashed=True)
    drawing.line([(axes.x(low), height / 2), (axes.x(high), height / 2)], "currentColor", 2)
    drawing.dot((axes.x(middle), height / 2), "currentColor", 3.5)
    return drawing


def scaling_plot(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]]) -> Drawing:
    """Draw speed-ups over devices on logarithmic axes, a line a label; the diagonal is ideal."""
    area = PlotArea(340, 240, 40, 10, 10, 28, 0)
    numbers = sorted({devices for _, points in lines for devices, _ in points})
    shown = [*numbers, *(speedup for _, points in lines for _, speedup in points)]
    low, high = math.log2(min(shown)), math.log2(max(shown))
    axes = Axes(area, low, high, low, high)
    drawing = Drawing(area.width, area.height, "Speed-up over ranks; the table has its values")
    for number in numbers:
        x, y = axes.x(math.log2(number)), axes.y(math.log2(number))
        drawing.line([(x, area.top), (x, area.height - area.bottom)], "line")
        drawing.line([(area.left, y), (area.width - area.right, y)], "line")
        drawing.write((x, area.height - 12), str(number), area.text, anchor="middle")
        drawing.write((area.left - 6, y + 3), str(number), area.text, anchor="end")
    ends = [
        (axes.x(value), axes.y(value))
        for value in (math.log2(n) for n in numbers[:: len(numbers) - 1])
    ]
    drawing.line(ends, "soft", dashed=True)
    for label, points in lines:
        places = [(axes.x(math.log2(n)), axes.y(math.log2(s))) for n, s in points]
        drawing.line(places, "accent", 1.5)
        drawing.dot(places[-1], "accent", 3, text=label)
    return drawing
