"""Tables of suites as text, Markdown, CSV and JSON."""

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from nightbench.core.model import SuiteTable
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
