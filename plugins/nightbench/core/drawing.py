"""Drawings of lines, areas, dots and texts: SVG for pages and files, PNG for messages. Pure."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal
from xml.etree import ElementTree

INKS = {
    "text": "#1b2430",
    "soft": "#5c6b7a",
    "line": "#d9e0e7",
    "accent": "#0b6bcb",
    "bad": "#c62828",
}
"""Names of colours, which the pages' style has as variables; any other ink is a CSS colour."""

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]

_DASH = 6.0
_FINER = 2
"""PNGs are rendered at this multiple of their size and scaled down."""
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
"""Anchors of SVG -> those of Pillow."""


class Drawing:
    """Shapes, of which later ones cover earlier ones; the origin is the upper left corner.

    `label` says in words what the drawing shows; it is empty if the text next to it does.
    """

    def __init__(self, width: float, height: float, label: str = "") -> None:
        self._size = (width, height)
        said = {"role": "img", "aria-label": label} if label else {"aria-hidden": "true"}
        look = {"viewBox": f"0 0 {width:g} {height:g}", "font-family": "system-ui, sans-serif"}
        self._svg = ElementTree.Element("svg", {**look, **said})

    def line(
        self, points: Sequence[Point], ink: str, width: float = 1, dashed: bool = False
    ) -> None:
        """Draw a line through points."""
        more = {"stroke-dasharray": f"{_DASH:g}"} if dashed else {}
        look = {"stroke": INKS.get(ink, ink), "stroke-width": f"{width:g}", **more}
        self._add("polyline", "none", {"points": _text(points), **look})

    def area(self, points: Sequence[Point], ink: str, alpha: float = 1, title: str = "") -> None:
        """Fill what a line through points surrounds."""
        self._add("polygon", ink, {"points": _text(points), "fill-opacity": f"{alpha:g}"}, title)

    def dot(self, at: Point, ink: str, radius: float, alpha: float = 1, title: str = "") -> None:
        """Draw a dot; `title` is its tooltip."""
        place = {"cx": f"{at[0]:.1f}", "cy": f"{at[1]:.1f}", "r": f"{radius:g}"}
        self._add("circle", ink, {**place, "fill-opacity": f"{alpha:g}"}, title)

    def write(
        self, at: Point, text: str, size: float, ink: str = "soft", anchor: Anchor = "start"
    ) -> None:
        """Write a text on a base line."""
        place = {"x": f"{at[0]:.1f}", "y": f"{at[1]:.1f}", "font-size": f"{size:g}"}
        self._add("text", ink, {**place, "text-anchor": anchor}).text = text

    def _add(
        self, kind: str, fill: str, look: dict[str, str], title: str = ""
    ) -> ElementTree.Element:
        shape = ElementTree.SubElement(self._svg, kind, {"fill": INKS.get(fill, fill), **look})
        if title:
            ElementTree.SubElement(shape, "title").text = title
        return shape

    def svg(self, themed: bool = True) -> str:
        """Return it as SVG; `themed` takes the colours of the page that it is part of."""
        text = ElementTree.tostring(self._svg, encoding="unicode")
        if not themed:
            return text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        for name, colour in INKS.items():
            text = text.replace(f'"{colour}"', f'"var(--{name})"')
        return text

    def png(self, scale: int = 1) -> bytes:
        """Return it as PNG of few colours: a plot of 120 nights takes some 20 kB."""
        from PIL import Image, ImageColor, ImageDraw, ImageFont

        finer = scale * _FINER
        width, height = (round(length * finer) for length in self._size)
        image = Image.new("RGB", (width, height), "white")
        canvas = ImageDraw.Draw(image)
        for shape in self._svg:
            look = shape.attrib
            solid = ImageColor.getrgb(look["stroke" if shape.tag == "polyline" else "fill"])
            alpha = float(look.get("fill-opacity", 1))
            ink = tuple(round(255 + alpha * (part - 255)) for part in solid)
            numbers = [
                finer * float(each) for each in look.get("points", "").replace(",", " ").split()
            ]
            points = list(zip(numbers[::2], numbers[1::2], strict=True))
            if shape.tag == "text":
                font = ImageFont.load_default(finer * float(look["font-size"]))
                at = (finer * float(look["x"]), finer * float(look["y"]))
                canvas.text(at, shape.text or "", ink, font, _ANCHORS[look["text-anchor"]])
            elif shape.tag == "circle":
                at = (finer * float(look["cx"]), finer * float(look["cy"]))
                canvas.circle(at, finer * float(look["r"]), ink)
            elif shape.tag == "polygon":
                canvas.polygon(points, ink)
            else:
                thick = round(finer * float(look["stroke-width"]))
                dashed = "stroke-dasharray" in look
                for part in _dashes(points, _DASH * finer) if dashed else (points,):
                    canvas.line(part, ink, thick, "curve")
        data = io.BytesIO()
        small = image.resize((width // _FINER, height // _FINER), Image.Resampling.LANCZOS)
        small.quantize(64).save(data, "PNG", optimize=True)
        return data.getvalue()


def _text(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _dashes(points: Sequence[Point], length: float) -> Iterator[list[Point]]:
    for (x, y), (to_x, to_y) in pairwise(points):
        whole = math.hypot(to_x - x, to_y - y)
        for number in range(math.ceil(whole / (2 * length))):
            ends = (2 * number * length / whole, min(1.0, (2 * number + 1) * length / whole))
            yield [(x + share * (to_x - x), y + share * (to_y - y)) for share in ends]
