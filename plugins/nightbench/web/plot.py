"""A series as the geometry of an SVG plot. Pure: the template draws what stands here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nightbench.web.views import PointView, SeriesView, day, figure, percent

WIDTH, HEIGHT = 480, 180
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 28


@dataclass(frozen=True)
class Mark:
    """One result in the plot."""

    x: float
    y: float
    state: str
    title: str
    run_id: str


@dataclass(frozen=True)
class Tick:
    """A label of an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Plot:
    """Everything that is drawn; lengths in the units of the view box."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    marks: tuple[Mark, ...]
    line: str
    """Points of the polyline through the medians that count."""
    median_y: float | None
    since_x: float | None
    """Where the event began that the page is about."""
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]


def draw(series: SeriesView, unit: str, since_run: str | None = None) -> Plot | None:
    """The plot of a series; None where it has no figure at all.

    A line stands at the run `since_run`, where the series has a result of it.

    The y axis does not begin at zero: a change of some percent is what one looks for.
    """
    shown = [point for point in series.points if point.throughput is not None]
    if not shown:
        return None
    values = [point.throughput for point in shown if point.throughput is not None]
    low, high, steps = _scale(min(values), max(values))
    first, last = shown[0].at, shown[-1].at
    since = next((point.at for point in shown if point.run_id == since_run), None)

    def y(value: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low), 1)

    marks = tuple(
        Mark(_x(point.at, first, last), y(value), point.state, _title(point, unit), point.run_id)
        for point, value in zip(shown, values, strict=True)
    )
    middle = series.median
    return Plot(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        top=TOP,
        bottom=HEIGHT - BOTTOM,
        marks=marks,
        line=" ".join(f"{m.x},{m.y}" for m, p in zip(marks, shown, strict=True) if p.counts),
        median_y=y(middle) if middle is not None else None,
        since_x=None if since is None else _x(since, first, last),
        y_ticks=tuple(Tick(y(step), figure(step)) for step in steps),
        x_ticks=_dates(first, last),
    )


def _x(at: datetime, first: datetime, last: datetime) -> float:
    span = (last - first).total_seconds()
    share = 0.5 if span == 0 else (at - first).total_seconds() / span
    return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)


def _dates(first: datetime, last: datetime) -> tuple[Tick, ...]:
    if first == last:
        return (Tick(_x(first, first, last), day(first)),)
    return (Tick(LEFT, day(first)), Tick(WIDTH - RIGHT, day(last)))


def _scale(low: float, high: float) -> tuple[float, float, Sequence[float]]:
    """Limits of the y axis with some air, and round figures between them."""
    air = max((high - low) * 0.15, abs(high) * 0.02, 1e-9)
    low, high = low - air, high + air
    rough = (high - low) / 3
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.75)
    begin = math.ceil(low / step)
    count = math.floor(high / step) - begin + 1
    return low, high, [(begin + k) * step for k in range(count)]


def _title(point: PointView, unit: str) -> str:
    lines = [
        f"{figure(point.throughput)} {unit}/s ({point.state.replace('_', ' ')})",
        f"{day(point.at)} UTC, {point.run_kind}",
        f"n = {point.n}, spread {percent(point.spread)}",
    ]
    if point.version:
        lines.append(f"version {point.version}")
    return "\n".join([*lines, *([point.sentence] if point.sentence else [])])
