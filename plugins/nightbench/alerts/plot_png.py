"""Draws the plot of a series as a PNG for messages, at twice its size and scaled down."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from nightbench.core.model import HistoryPoint
from nightbench.core.plot_geometry import PlotArea, PlotGeometry

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

AREA = PlotArea(880, 340, left=78, right=18, top=48, bottom=34, steps=4)
"""Of the picture, in pixels."""

MOST_POINTS = 120
"""Largest number of nights that are drawn, the latest ones."""

_FINER = 2
_GROUND, _TEXT, _SOFT, _LINE = "#ffffff", "#1b2430", "#5c6b7a", "#d9e0e7"
_GOOD, _BAD = "#0b6bcb", "#c62828"


@dataclass(frozen=True)
class Picture:
    """A picture that is attached to a message."""

    name: str
    """File name, `.png`."""
    data: bytes


def picture(
    title: str,
    points: Sequence[HistoryPoint],
    unit: str = "",
    since: datetime | None = None,
    baseline: float | None = None,
) -> Picture | None:
    """Return the plot of a series.

    Args:
        title: stands above it, and makes the file's name.
        points: oldest first; the last one is tonight's.
        unit: of work; the axis is in units per second.
        since: nights from here on are drawn as bad.
        baseline: of the verdict, drawn as a line.

    Returns:
        None where there are not two nights to draw.
    """
    shown = points[-MOST_POINTS:]
    if len(shown) < 2:
        return None
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (AREA.width * _FINER, AREA.height * _FINER), _GROUND)
    _Canvas(ImageDraw.Draw(image)).series(title, shown, unit, since, baseline)
    small = image.resize((AREA.width, AREA.height), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    # Few colours: a plot of 120 nights takes some 20 kB.
    small.quantize(64).save(data, "PNG", optimize=True)
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in title)
    return Picture(f"{name[:120]}.png", data.getvalue())


class _Canvas:
    """Draws in the units of the small picture."""

    def __init__(self, draw: ImageDraw) -> None:
        self._draw = draw

    def series(
        self,
        title: str,
        points: Sequence[HistoryPoint],
        unit: str,
        since: datetime | None,
        baseline: float | None,
    ) -> None:
        values = [point.value for point in points]
        levels = values if baseline is None else [*values, baseline]
        plot = PlotGeometry.of(AREA, [point.at for point in points], levels)
        x, y = plot.x, plot.y
        left, right = AREA.left, AREA.width - AREA.right
        top, bottom = AREA.top, AREA.height - AREA.bottom
        self._text((left, 8), title, 15, _TEXT)
        self._text((left, 28), f"{unit}/s" if unit else "units/s", 12, _SOFT)
        for step in plot.steps:
            self._line([(left, y(step)), (right, y(step))], _LINE)
            self._text((left - 8, y(step)), f"{step:.6g}", 12, _SOFT, "rm")
        self._text((left, bottom + 10), f"{plot.first:%Y-%m-%d}", 12, _SOFT)
        self._text((right, bottom + 10), f"{plot.last:%Y-%m-%d}", 12, _SOFT, "ra")
        if baseline is not None:
            self._dashes(left, right, y(baseline))
        if since is not None:
            self._line([(x(since), top - 4), (x(since), bottom)], _BAD, 1.5)
            # Beside the line where there is room: it must not leave the picture.
            side = "la" if x(since) < AREA.width - 180 else "ra"
            beside = x(since) + (6 if side == "la" else -6)
            self._text((beside, top - 18), f"since {since:%Y-%m-%d}", 12, _BAD, side)
        marks = [(x(point.at), y(point.value)) for point in points]
        self._line(marks, _SOFT, 1)
        for point, (at, level) in zip(points, marks, strict=True):
            is_bad = since is not None and point.at >= since
            self._dot(at, level, _BAD if is_bad else _GOOD, 4 if point is points[-1] else 2.5)

    def _line(self, ends: Sequence[tuple[float, float]], colour: str, width: float = 1) -> None:
        self._draw.line(
            [(a * _FINER, b * _FINER) for a, b in ends], colour, round(width * _FINER), "curve"
        )

    def _dashes(self, left: float, right: float, level: float) -> None:
        at = left
        while at < right:
            self._line([(at, level), (min(at + 6, right), level)], _GOOD)
            at += 12

    def _dot(self, x: float, y: float, colour: str, radius: float) -> None:
        box = [(x - radius) * _FINER, (y - radius) * _FINER]
        self._draw.ellipse([*box, *((v + radius) * _FINER for v in (x, y))], colour)

    def _text(
        self, at: tuple[float, float], text: str, size: int, colour: str, anchor: str = "la"
    ) -> None:
        from PIL import ImageFont

        font = ImageFont.load_default(size * _FINER)
        self._draw.text((at[0] * _FINER, at[1] * _FINER), text, colour, font, anchor)
