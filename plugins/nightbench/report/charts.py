"""Figures of suites' tables, as SVG and PNG: bars or lines over the columns, one for each row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nightbench.config.control_plane import how_to_install
from nightbench.core.errors import UserError
from nightbench.core.model import SuiteTable
from nightbench.core.tables import Cell, Label
from nightbench.report.suite_tables import heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png")

_NAMES = {"value": 1.0, "published": 0.35}
"""Figures of a cell -> how strongly they are drawn."""


def write_charts(table: SuiteTable, cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Draw the measured values of a table, with the published ones paler beside them.

    Returns:
        The files `<table>.svg` and `<table>.png`; none where the table has no value at all.
    """
    if all(cell.value is None and cell.published is None for cell in cells):
        return []
    # Half a second to import, and only this function needs it.
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UserError(
            f"figures need matplotlib, which is not installed: {how_to_install('analysis')}"
        ) from error

    rows = list(dict.fromkeys(cell.row for cell in cells))
    columns = list(dict.fromkeys(cell.column for cell in cells))
    width = max(6.4, 1.2 + 0.28 * len(rows) * len(columns))
    picture = Figure(figsize=(min(width, 16.0), 4.8), layout="constrained")
    axes = picture.add_subplot()
    (_bars if table.chart == "bars" else _lines)(axes, cells, rows, columns)
    axes.set_title(heading(table, cells))
    axes.set_xticks(range(len(columns)), [" ".join(column) for column in columns])
    axes.set_xlabel(" / ".join(table.columns))
    units = [cell.unit for cell in cells if cell.value is not None]
    units = units or [cell.published_unit or "" for cell in cells if cell.published is not None]
    axes.set_ylabel(" or ".join(dict.fromkeys(units)))
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize="small", frameon=False, ncols=1 + len(rows) // 8)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{table.name}.{suffix}" for suffix in FORMATS]
    # Without a date and with names of its own, the same values make the same file.
    with rc_context({"svg.hashsalt": table.name}):
        for path in paths:
            picture.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else {})
    return paths


def _bars(axes: Axes, cells: Sequence[Cell], rows: list[Label], columns: list[Label]) -> None:
    """Bars side by side, with a place for what has a value in any column."""
    there = {
        (each.row, name) for each in cells for name in _NAMES if getattr(each, name) is not None
    }
    places = [(row, name) for row in rows for name in _NAMES if (row, name) in there]
    thick = 0.8 / len(places)
    for cell in cells:
        for name, alpha in _NAMES.items():
            if (value := getattr(cell, name)) is None:
                continue
            left = columns.index(cell.column) - 0.4 + places.index((cell.row, name)) * thick
            colour = _colour(rows.index(cell.row))
            axes.bar(left, value, thick, align="edge", color=colour, alpha=alpha)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    _legend(axes, cells, rows)


def _lines(axes: Axes, cells: Sequence[Cell], rows: list[Label], columns: list[Label]) -> None:
    for row, label in enumerate(rows):
        own = [cell for cell in cells if cell.row == label]
        for (name, alpha), style in zip(_NAMES.items(), ("o-", "s--"), strict=True):
            points = [
                (columns.index(cell.column), getattr(cell, name))
                for cell in own
                if getattr(cell, name) is not None
            ]
            xs, ys = [x for x, _ in points], [y for _, y in points]
            axes.plot(xs, ys, style, color=_colour(row), alpha=alpha)
    _legend(axes, cells, rows)


def _colour(row: int) -> tuple[float, float, float, float]:
    from matplotlib import colormaps

    # Ten strong colours, then their ten pale neighbours.
    twenty = colormaps["tab20"]
    return twenty((2 * row) % 20 + (row // 10) % 2)


def _legend(axes: Axes, cells: Sequence[Cell], rows: list[Label]) -> None:
    """An entry for each row that has a value, and one for what is published."""
    pale = _NAMES["published"]
    for row, label in enumerate(rows):
        own, name = [cell for cell in cells if cell.row == label], " ".join(label)
        if any(cell.value is not None for cell in own):
            axes.bar(0, 0, color=_colour(row), label=name)
        elif any(cell.published is not None for cell in own):
            axes.bar(0, 0, color=_colour(row), alpha=pale, label=f"{name} (published)")
    if any(cell.published is not None for cell in cells):
        axes.bar(0, 0, color="grey", alpha=pale, label="paler: published")
