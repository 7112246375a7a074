"""Computes the geometry of an SVG plot of a series; the template draws it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nightbench.core.plot_geometry import PlotArea, PlotGeometry
from nightbench.web.views import PointView, SeriesView, day, figure, percent

AREA = PlotArea(480, 180, left=58, right=12, top=12, bottom=28, steps=3)
"""In units of the view box."""


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
    """Begin of the alert's event."""
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]


def draw(series: SeriesView, unit: str, since_run: str | None = None) -> Plot | None:
    """Return the plot of a series; None where it has no value.

    A line marks the run `since_run`, where the series has a result of it. The y axis does not begin
    at zero, since changes of some percent must be visible.
    """
    shown = [point for point in series.points if point.throughput is not None]
    if not shown:
        return None
    values = [point.throughput for point in shown if point.throughput is not None]
    geometry = PlotGeometry.of(AREA, [point.at for point in shown], values)
    x, y = geometry.x, geometry.y
    since = next((point.at for point in shown if point.run_id == since_run), None)

    marks = tuple(
        Mark(x(point.at), y(value), point.state, _title(point, unit), point.run_id)
        for point, value in zip(shown, values, strict=True)
    )
    middle = series.median
    return Plot(
        width=AREA.width,
        height=AREA.height,
        left=AREA.left,
        right=AREA.width - AREA.right,
        top=AREA.top,
        bottom=AREA.height - AREA.bottom,
        marks=marks,
        line=" ".join(f"{m.x},{m.y}" for m, p in zip(marks, shown, strict=True) if p.counts),
        median_y=y(middle) if middle is not None else None,
        since_x=None if since is None else x(since),
        y_ticks=tuple(Tick(y(step), figure(step)) for step in geometry.steps),
        x_ticks=_dates(geometry),
    )


def _dates(geometry: PlotGeometry) -> tuple[Tick, ...]:
    return tuple(Tick(geometry.x(at), day(at)) for at in sorted({geometry.first, geometry.last}))


def _title(point: PointView, unit: str) -> str:
    lines = [
        f"{figure(point.throughput)} {unit}/s ({point.state.replace('_', ' ')})",
        f"{day(point.at)} UTC, {point.run_kind}",
        f"n = {point.n}, spread {percent(point.spread)}",
    ]
    if point.version:
        lines.append(f"version {point.version}")
    return "\n".join([*lines, *([point.sentence] if point.sentence else [])])
