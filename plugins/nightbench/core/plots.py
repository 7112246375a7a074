"""The plots of the report, the published site and messages: a series, a trend, scaling. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nightbench.core.drawing import Drawing

_CHARACTER = 0.55
"""Mean width of a character, as a share of its height."""


@dataclass(frozen=True)
class PlotArea:
    """Size of a plot and its margins."""

    width: float
    height: float
    left: float = 0
    right: float = 0
    top: float = 0
    bottom: float = 0
    steps: int = 4
    """Approximate number of values on the y axis."""
    text: float = 10
    """Height of its texts."""


@dataclass(frozen=True)
class Axes:
    """Two axes in an area, from `first` to `last` and from `low` to `high`."""

    area: PlotArea
    first: float
    last: float
    low: float
    high: float

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


def series_plot(
    area: PlotArea,
    dates: Sequence[datetime],
    values: Sequence[float],
    label: str,
    *,
    ranges: tuple[Sequence[float], Sequence[float]] = ((), ()),
    baseline: float | None = None,
    marks: Sequence[tuple[datetime, str, str]] = (),
    ink: str = "accent",
) -> tuple[Drawing, Axes]:
    """Draw the nights of a series, oldest first; the y axis does not begin at zero.

    `ranges` are the smallest and largest repeats of the nights, `marks` the date, text and colour
    of events.
    """
    levels = [*values, *ranges[0], *ranges[1], *(() if baseline is None else (baseline,))]
    least, most = min(levels), max(levels)
    air = max((most - least) * 0.15, abs(most) * 0.02, 1e-9)
    times = [at.timestamp() for at in dates]
    axes = Axes(area, times[0], times[-1], least - air, most + air)
    drawing = axes.begin(label)
    right, bottom = area.width - area.right, area.height - area.bottom
    across = [axes.x(at) for at in times]
    if ranges[0]:
        lower, upper = ([axes.y(value) for value in each] for each in ranges)
        edge = [*zip(across, lower, strict=True), *reversed([*zip(across, upper, strict=True)])]
        drawing.area(edge, "accent", 0.18)
    if baseline is not None:
        level = axes.y(baseline)
        drawing.line([(area.left, level), (right, level)], "soft", dashed=True)
    below = bottom + 1.4 * area.text
    drawing.write((area.left, below), f"{dates[0]:%Y-%m-%d}", area.text)
    drawing.write((right, below), f"{dates[-1]:%Y-%m-%d}", area.text, anchor="end")
    free = 0.0
    for at, text, colour in sorted(marks):
        x = axes.x(at.timestamp())
        drawing.line([(x, area.top - 4), (x, bottom)], colour, dashed=True)
        width = _CHARACTER * area.text * len(text)
        begin = min(x, right - width)
        if begin >= free:
            drawing.write((begin, area.top - 8), text, area.text, colour)
            free = begin + width + area.text
    drawing.line([*zip(across, map(axes.y, values), strict=True)], ink, 1.5)
    return drawing, axes


def sparkline(values: Sequence[float]) -> str:
    """Return the newest nights of a series as SVG; its height is at least 4 % of the values."""
    least, most = min(values), max(values)
    air = max(most - least, 0.04 * abs(most), 1e-9) / 2
    middle = (least + most) / 2
    area = PlotArea(120, 28, top=3, bottom=3)
    axes = Axes(area, 0, max(1, len(values) - 1), middle - air, middle + air)
    drawing = Drawing(area.width, area.height)
    drawing.line([(axes.x(i), axes.y(value)) for i, value in enumerate(values)], "accent", 1.5)
    return drawing.svg()


def interval_plot(low: float, middle: float, high: float, most: float, label: str) -> str:
    """Return the interval of a change between -`most` and `most` as SVG, in the text's colour."""
    axes = Axes(PlotArea(120, 16, left=4, right=4), -most, most, 0, 1)
    drawing = Drawing(120, 16, label)
    drawing.line([(axes.x(0), 0), (axes.x(0), 16)], "soft", dashed=True)
    drawing.line([(axes.x(low), 8), (axes.x(high), 8)], "currentColor", 2)
    drawing.dot((axes.x(middle), 8), "currentColor", 3.5)
    return drawing.svg()


def scaling_plot(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]]) -> str:
    """Return speed-ups over devices on logarithmic axes as SVG, with the ideal as a diagonal."""
    area = PlotArea(340, 240, 40, 10, 10, 28)
    numbers = sorted({devices for _, points in lines for devices, _ in points})
    shown = [*numbers, *(speedup for _, points in lines for _, speedup in points)]
    low, high = math.log2(min(shown)), math.log2(max(shown))
    axes = Axes(area, low, high, low, high)
    drawing = Drawing(area.width, area.height, "Speed-up over ranks; the table has its values")

    def at(devices: float, speedup: float) -> tuple[float, float]:
        return axes.x(math.log2(devices)), axes.y(math.log2(speedup))

    for number in numbers:
        x, y = at(number, number)
        drawing.line([(x, area.top), (x, area.height - area.bottom)], "line")
        drawing.line([(area.left, y), (area.width - area.right, y)], "line")
        drawing.write((x, area.height - 12), str(number), area.text, anchor="middle")
        drawing.write((area.left - 6, y + 3), str(number), area.text, anchor="end")
    ends = (numbers[0], numbers[-1])
    drawing.line([at(number, number) for number in ends], "soft", dashed=True)
    for label, points in lines:
        drawing.line([at(*point) for point in points], "accent", 1.5)
        drawing.dot(at(*points[-1]), "accent", 3, title=label)
    return drawing.svg()
