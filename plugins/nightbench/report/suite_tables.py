"""Tables of suites as text, Markdown, CSV, JSON, and as plots: bars or lines, one for each row."""

import csv
import dataclasses
import io
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from nightbench.core.drawing import Drawing
from nightbench.core.model import SuiteTable
from nightbench.core.plots import Axes, PlotArea
from nightbench.core.sentences import percent
from nightbench.core.tables import Cell
from nightbench.report.tables import figure, markdown_row


def to_rich(table: SuiteTable, cells: Sequence[Cell]) -> Table:
    """Return a table for terminals; the reasons of its empty cells are `footnotes`."""
    title = heading(table, cells)
    shown = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    (first, *heads), rows = grid(table, cells)
    shown.add_column(first, overflow="fold")
    for head in heads:
        shown.add_column(head, justify="right", overflow="fold")
    for row in rows:
        shown.add_row(*map(escape, row))
    return shown


def heading(table: SuiteTable, cells: Sequence[Cell]) -> str:
    """Return the title of a table; sizes that it names are not those of a smoke run."""
    is_smoke = any((cell.case_id or "").endswith("-smoke") for cell in cells)
    return f"{table.title} (measured at smoke scale)" if is_smoke else table.title


def grid(table: SuiteTable, cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Return the head of a table, and its rows: a label, then cells of several lines."""
    reasons = _reasons(cells)
    at = {(cell.row, cell.column): cell for cell in cells}
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = []
    for row in dict.fromkeys(cell.row for cell in cells):
        found = (at.get((row, column)) for column in columns)
        rows.append([" ".join(row), *(_text(cell, reasons) if cell else "" for cell in found)])
    return [" / ".join(table.rows), *map("\n".join, columns)], rows


def footnotes(cells: Sequence[Cell]) -> list[str]:
    """Return why cells have no measured value, each reason once, numbered as in the cells."""
    return [f"[{number}] {reason}" for reason, number in _reasons(cells).items()]


def to_markdown(table: SuiteTable, cells: Sequence[Cell]) -> str:
    """Return a table with its heading and footnotes."""
    heads, rows = grid(table, cells)
    lines = [f"### {heading(table, cells)}", ""]
    lines += [markdown_row(heads), markdown_row(["---", *["---:"] * (len(heads) - 1)])]
    lines += [markdown_row(text.replace("\n", "<br>") for text in row) for row in rows]
    notes = footnotes(cells)
    return "\n".join([*lines, "", *(f"- {note}" for note in notes), *([""] if notes else [])])


def to_documents(table: SuiteTable, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return the cells as JSON values; `row` and `column` map axes to their values."""
    return [
        {
            "table": table.name,
            **dataclasses.asdict(cell),
            "row": dict(zip(table.rows, cell.row, strict=True)),
            "column": dict(zip(table.columns, cell.column, strict=True)),
        }
        for cell in cells
    ]


def to_csv(tables: Sequence[tuple[SuiteTable, Sequence[Cell]]]) -> str:
    """Return a line for each cell of all tables, under one head."""
    stream = io.StringIO()
    names = [each.name for each in dataclasses.fields(Cell)]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["table", *names])
    for table, cells in tables:
        for cell in cells:
            values = [getattr(cell, name) for name in names]
            texts = [" ".join(v) if isinstance(v, tuple) else v for v in values]
            writer.writerow([table.name, *texts])
    return stream.getvalue()


def _reasons(cells: Sequence[Cell]) -> dict[str, int]:
    found = dict.fromkeys(cell.reason for cell in cells if cell.reason is not None)
    return {reason: number for number, reason in enumerate(found, start=1)}


def _text(cell: Cell, reasons: dict[str, int]) -> str:
    if cell.value is None:
        lines = [f"[{reasons[cell.reason or '']}]"]
    else:
        lines = [f"{figure(cell.value)} {cell.unit}", f"n {cell.n}, spread {percent(cell.spread)}"]
        if cell.speedup is not None:
            lines.append(f"S {cell.speedup:.2f}, E {percent(cell.efficiency, digits=0)}")
    if cell.placed is not None:
        lines.append(f"trainers on {cell.placed}")
    if cell.sent_bytes_per_step is not None:
        lines.append(f"sends {cell.sent_bytes_per_step / 1e6:.3g} MB a step")
    if cell.published is not None:
        lines.append(f"published {figure(cell.published)} {cell.published_unit}")
    return "\n".join(lines)


# --- plots -------------------------------------------------------------------------------

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
