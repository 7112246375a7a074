"""Plots of suites' tables, as SVG and PNG: bars or lines over the columns, one for each row."""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from nightbench.core.drawing import Drawing
from nightbench.core.model import SuiteTable
from nightbench.core.plots import Axes, PlotArea
from nightbench.core.tables import Cell
from nightbench.report.suite_tables import heading

_ALPHAS = {"": 1.0, " (published)": 0.35}
"""Ends of legends -> how strongly their values are shown."""
_INKS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")
_TEXT, _LINE = 12, 18


def write_charts(table: SuiteTable, cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Draw the measured values of a table, and the published ones paler.

    Returns:
        The files `<table>.svg` and `<table>.png`; none if the table has no value.
    """
    if all(cell.value is None and cell.published is None for cell in cells):
        return []
    drawing = _chart(table, cells)
    folder.mkdir(parents=True, exist_ok=True)
    svg, png = (folder / f"{table.name}.{suffix}" for suffix in ("svg", "png"))
    svg.write_text(drawing.svg(themed=False), encoding="utf-8")
    png.write_bytes(drawing.png(scale=2))
    return [svg, png]


def _chart(table: SuiteTable, cells: Sequence[Cell]) -> Drawing:
    rows = list(dict.fromkeys(cell.row for cell in cells))
    columns = list(dict.fromkeys(cell.column for cell in cells))
    places: dict[tuple[int, str], dict[int, float]] = defaultdict(dict)
    for cell in sorted(cells, key=lambda cell: rows.index(cell.row)):
        for end, value in zip(_ALPHAS, (cell.value, cell.published), strict=True):
            if value is not None:
                places[rows.index(cell.row), end][columns.index(cell.column)] = value
    names = [" ".join(rows[row]) + end for row, end in places]
    width = min(max(640, 120 + 28 * len(rows) * len(columns)), 1600)
    label_width = 30 + round(0.6 * _TEXT * max(map(len, names)))
    in_line = max(1, (width - 90) // label_width)
    bottom = 54 + _LINE * math.ceil(len(places) / in_line)
    most = max(value for points in places.values() for value in points.values())
    area = PlotArea(width, 380 + bottom, 70, 20, 58, bottom, 5, _TEXT)
    axes = Axes(area, -0.5, len(columns) - 0.5, 0, 1.05 * max(most, 1e-9))
    drawing = axes.begin(heading(table, cells))
    drawing.write((10, 22), heading(table, cells), 15, "text")
    units = [cell.unit for cell in cells if cell.value is not None]
    units = units or [cell.published_unit or "" for cell in cells if cell.published is not None]
    drawing.write((10, 42), " or ".join(dict.fromkeys(units)), _TEXT)
    floor = area.height - bottom
    for number, column in enumerate(columns):
        drawing.write((axes.x(number), floor + 16), " ".join(column), _TEXT, anchor="middle")
    drawing.write((width / 2, floor + 34), " / ".join(table.columns), _TEXT, anchor="middle")
    thick = 0.8 / len(places)
    for number, ((row, end), points) in enumerate(places.items()):
        ink, alpha = _INKS[row % len(_INKS)], _ALPHAS[end]
        for at, value in points.items() if table.chart == "bars" else ():
            left = at - 0.4 + number * thick
            edges = axes.x(left), axes.x(left + thick)
            drawing.area(
                _box(*edges, axes.y(value), floor), ink, alpha, f"{names[number]}: {value:.6g}"
            )
        if table.chart == "lines":
            shown = [(axes.x(at), axes.y(value)) for at, value in sorted(points.items())]
            drawing.line(shown, ink, 1.5, dashed=bool(end))
            for place in shown:
                drawing.dot(place, ink, 4, alpha)
        x, y = 70 + label_width * (number % in_line), floor + 56 + _LINE * (number // in_line)
        drawing.area(_box(x, x + 12, y - 10, y), ink, alpha)
        drawing.write((x + 18, y), names[number], _TEXT)
    return drawing


def _box(left: float, right: float, top: float, bottom: float) -> list[tuple[float, float]]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]
