"""Plots of suites' tables, as SVG and PNG: bars or lines over the columns, one for each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from nightbench.core.drawing import Drawing
from nightbench.core.model import SuiteTable
from nightbench.core.plots import Axes, PlotArea
from nightbench.core.tables import Cell, Label
from nightbench.report.suite_tables import heading

_ALPHAS = {"value": 1.0, "published": 0.35}
"""Values of a cell -> how strongly they are drawn."""
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
    values = {
        (cell.row, name): found
        for cell in cells
        for name in _ALPHAS
        if (
            found := [
                each for each in cells if each.row == cell.row and getattr(each, name) is not None
            ]
        )
    }
    places = [(row, name) for row in rows for name in _ALPHAS if (row, name) in values]
    width = min(max(640, 120 + 28 * len(rows) * len(columns)), 1600)
    label_width = 30 + round(0.6 * _TEXT * max(len(_named(*place)) for place in places))
    in_line = max(1, (width - 90) // label_width)
    bottom = 54 + _LINE * math.ceil(len(places) / in_line)
    most = max(getattr(each, name) for (_, name), found in values.items() for each in found)
    area = PlotArea(width, 380 + bottom, 70, 20, 58, bottom, 5, _TEXT)
    axes = Axes(area, -0.5, len(columns) - 0.5, 0, 1.05 * max(most, 1e-9))
    title = heading(table, cells)
    drawing = axes.begin(title)
    drawing.write((10, 22), title, 15, "text")
    units = [cell.unit for cell in cells if cell.value is not None]
    units = units or [cell.published_unit or "" for cell in cells if cell.published is not None]
    drawing.write((10, 42), " or ".join(dict.fromkeys(units)), _TEXT)
    floor = area.height - bottom
    for number, column in enumerate(columns):
        drawing.write((axes.x(number), floor + 16), " ".join(column), _TEXT, anchor="middle")
    drawing.write((width / 2, floor + 34), " / ".join(table.columns), _TEXT, anchor="middle")
    for number, (row, name) in enumerate(places):
        ink, alpha = _INKS[rows.index(row) % len(_INKS)], _ALPHAS[name]
        points = {columns.index(each.column): getattr(each, name) for each in values[row, name]}
        if table.chart == "bars":
            thick = 0.8 / len(places)
            for at, value in points.items():
                left = at - 0.4 + number * thick
                corners = ((axes.x(left), axes.y(value)), (axes.x(left + thick), floor))
                drawing.box(*corners, ink, alpha, f"{_named(row, name)}: {value:.6g}")
        else:
            drawn = [(axes.x(at), axes.y(value)) for at, value in sorted(points.items())]
            drawing.line(drawn, ink, 1.5, dashed=name == "published")
            for at in drawn:
                drawing.dot(at, ink, 4, alpha)
        x, y = 70 + label_width * (number % in_line), floor + 56 + _LINE * (number // in_line)
        drawing.box((x, y - 10), (x + 12, y), ink, alpha)
        drawing.write((x + 18, y), _named(row, name), _TEXT)
    return drawing


def _named(row: Label, name: str) -> str:
    return " ".join(row) if name == "value" else f"{' '.join(row)} (published)"
