"""Rows as a table for terminals and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

Row = Mapping[str, Any]

COLUMNS = ("case", "throughput", "unit", "n", "spread", "speed-up", "efficiency", "verdict")
_COLOURS = {
    "ok": "green",
    "improved": "green",
    "regressed": "red",
    "failed": "red",
    "missing": "red",
    "quarantined": "yellow",
    "insufficient_data": "cyan",
}


def cells(row: Row) -> tuple[str, ...]:
    """Return a row's cells for people: figures to four digits, a dash where there is none."""
    return (
        str(row["case_id"]),
        figure(row["throughput"]),
        f"{row['unit']}/s" if row["unit"] else "-",
        str(row["n"]),
        percent(row["spread"]),
        "-" if row["speedup"] is None else f"{row['speedup']:.2f}",
        percent(row["efficiency"], digits=0),
        verdict(row),
    )


def verdict(row: Row) -> str:
    """Return what is to be said of a row in one word."""
    if row["status"] != "ok":
        # Cancelled says more than the verdict on it, which is failed.
        return str(row["status"])
    return "quarantined" if row["quarantined"] else str(row["verdict"] or "-")


def figure(value: float | None) -> str:
    """Return a throughput to four significant digits."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:#.4g}".rstrip(".")


def percent(value: float | None, digits: int = 1) -> str:
    """Return a fraction as a percentage."""
    return "-" if value is None else f"{value * 100:.{digits}f} %"


def results_table(rows: Sequence[Row], title: str = "") -> Table:
    """Return the table of medians for a terminal."""
    table = Table(title=title or None, title_justify="left", title_style="bold")
    for position, name in enumerate(COLUMNS):
        right = 0 < position < len(COLUMNS) - 1 and name != "unit"
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        words = [escape(cell) for cell in cells(row)]
        colour = _COLOURS.get(words[-1])
        if colour:
            words[-1] = f"[{colour}]{words[-1]}[/{colour}]"
        table.add_row(*words)
    return table


def markdown_table(rows: Sequence[Row]) -> str:
    """Return the table of medians as Markdown."""
    right = {"throughput", "n", "spread", "speed-up", "efficiency"}
    lines = [
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "|".join("---:" if name in right else "---" for name in COLUMNS) + "|",
    ]
    for row in rows:
        words = [cell.replace("|", "\\|").replace("\n", " ") for cell in cells(row)]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines) + "\n"


def verdict_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each case with its verdict's evidence, and why it does not count."""
    for row in rows:
        said = [row["verdict_sentence"]] if row["verdict_sentence"] else []
        firsts = [str(reason).strip().split("\n")[0] for reason in row["reasons"]]
        if row["status"] != "ok":
            # Why it failed; that a check then found it failed is no news.
            said = said or firsts[:1]
            yield from (f"{row['case_id']}: {line}" for line in said)
            continue
        yield from (f"{row['case_id']}: {line}" for line in said)
        for first in firsts:
            yield f"{row['case_id']}: {verdict(row)}: {first}"
