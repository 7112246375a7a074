"""Drawings of lines, areas, dots and texts: SVG for pages and files, PNG for messages. Pure."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

INKS = {
    "ground": "#ffffff",
    "text": "#1b2430",
    "soft": "#5c6b7a",
    "line": "#d9e0e7",
    "accent": "#0b6bcb",
    "bad": "#c62828",
}
"""Names of colours, which the pages' style has as variables; any other ink is a CSS colour."""

Point = tuple[float, float]

_DASH = 6.0
_FINER = 2
"""PNGs are drawn at this multiple of their size and scaled down."""


@dataclass(frozen=True)
class Shape:
    """A part of a drawing; later ones cover earlier ones."""

    kind: Literal["line", "area", "dot", "text"]
    points: Sequence[Point]
    ink: str
    size: float = 1.0
    """Width of a line, radius of a dot, height of a text."""
    alpha: float = 1.0
    is_dashed: bool = False
    anchor: Literal["start", "middle", "end"] = "start"
    text: str = ""
    """Of any other shape than a text: its tooltip."""


@dataclass
class Drawing:
    """Shapes on a plane whose origin is the upper left corner."""

    width: float
    height: float
    label: str = ""
    """Says in words what it shows; empty if the text next to it does."""
    shapes: list[Shape] = field(default_factory=list)

    def line(
        self, points: Sequence[Point], ink: str, width: float = 1, dashed: bool = False
    ) -> None:
        """Draw a line through points."""
        self.shapes.append(Shape("line", points, ink, width, is_dashed=dashed))

    def area(self, points: Sequence[Point], ink: str, alpha: float = 1, text: str = "") -> None:
        """Fill what a line through points surrounds."""
        self.shapes.append(Shape("area", points, ink, alpha=alpha, text=text))

    def box(self, one: Point, other: Point, ink: str, alpha: float = 1, text: str = "") -> None:
        """Fill a rectangle between two corners."""
        (left, top), (right, bottom) = one, other
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        self.area(corners, ink, alpha, text)

    def dot(self, at: Point, ink: str, radius: float, alpha: float = 1, text: str = "") -> None:
        """Draw a dot."""
        self.shapes.append(Shape("dot", [at], ink, radius, alpha, text=text))

    def write(
        self,
        at: Point,
        text: str,
        size: float,
        ink: str = "soft",
        anchor: Literal["start", "middle", "end"] = "start",
    ) -> None:
        """Write a text on a base line."""
        self.shapes.append(Shape("text", [at], ink, size, anchor=anchor, text=text))

    def svg(self, themed: bool = True) -> str:
        """Return it as SVG; `themed` takes the colours of the page that it is part of."""
        role = (
            f'role="img" aria-label="{escape(self.label)}"' if self.label else 'aria-hidden="true"'
        )
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" font-family="system-ui, sans-serif"'
        if not themed:
            size += f' width="{self.width:g}" height="{self.height:g}"'
        shapes = "".join(_svg(each, themed) for each in self.shapes)
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {role}>{shapes}</svg>'

    def png(self, scale: int = 1) -> bytes:
        """Return it as PNG of few colours: a plot of 120 nights takes some 20 kB."""
        from PIL import Image, ImageDraw

        size = (round(self.width * scale), round(self.height * scale))
        image = Image.new("RGB", (size[0] * _FINER, size[1] * _FINER), INKS["ground"])
        canvas = ImageDraw.Draw(image)
        for shape in self.shapes:
            _paint(canvas, shape, scale * _FINER)
        data = io.BytesIO()
        small = image.resize(size, Image.Resampling.LANCZOS)
        small.quantize(64).save(data, "PNG", optimize=True)
        return data.getvalue()


def _svg(shape: Shape, themed: bool) -> str:
    ink = f"var(--{shape.ink})" if themed and shape.ink in INKS else INKS.get(shape.ink, shape.ink)
    (x, y), *_ = shape.points
    more = "" if shape.alpha == 1 else f' fill-opacity="{shape.alpha:g}"'
    inner = f"<title>{escape(shape.text)}</title>" if shape.text else ""
    if shape.kind == "text":
        anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
        place = f'x="{_short(x)}" y="{_short(y)}" font-size="{shape.size:g}"{anchor}'
        return f'<text {place} fill="{ink}">{escape(shape.text)}</text>'
    if shape.kind == "dot":
        place = f'cx="{_short(x)}" cy="{_short(y)}" r="{shape.size:g}"'
        return f'<circle {place} fill="{ink}"{more}>{inner}</circle>'
    points = " ".join(f"{_short(x)},{_short(y)}" for x, y in shape.points)
    if shape.kind == "area":
        return f'<polygon points="{points}" fill="{ink}"{more}>{inner}</polygon>'
    if shape.is_dashed:
        more = f' stroke-dasharray="{_DASH:g}"'
    look = f'fill="none" stroke="{ink}" stroke-width="{shape.size:g}"'
    return f'<polyline points="{points}" {look}{more}/>'


def _short(length: float) -> str:
    return f"{round(length, 1):g}"


def _paint(canvas: ImageDraw, shape: Shape, scale: int) -> None:
    from PIL import ImageColor, ImageFont

    solid = ImageColor.getrgb(INKS.get(shape.ink, shape.ink))
    ink = tuple(round(255 + shape.alpha * (part - 255)) for part in solid)
    points = [(x * scale, y * scale) for x, y in shape.points]
    (x, y), *_ = points
    size = shape.size * scale
    if shape.kind == "text":
        font = ImageFont.load_default(size)
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
        canvas.text((x, y), shape.text, ink, font, anchor)
    elif shape.kind == "dot":
        canvas.ellipse([x - size, y - size, x + size, y + size], ink)
    elif shape.kind == "area":
        canvas.polygon(points, ink)
    else:
        for part in _dashes(points, _DASH * scale) if shape.is_dashed else (points,):
            canvas.line(part, ink, round(size), "curve")


def _dashes(points: Sequence[Point], length: float) -> Iterator[list[Point]]:
    for (x, y), (to_x, to_y) in pairwise(points):
        whole = math.hypot(to_x - x, to_y - y)
        for number in range(math.ceil(whole / (2 * length))):
            ends = (2 * number * length / whole, min(1.0, (2 * number + 1) * length / whole))
            yield [(x + share * (to_x - x), y + share * (to_y - y)) for share in ends]
