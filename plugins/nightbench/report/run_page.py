"""The report of a run: as Markdown, and as one HTML page without scripts that loads nothing.

What both say stands in the folder `templates`.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from nightbench.core.plot_geometry import PlotArea, PlotGeometry
from nightbench.core.sentences import percent
from nightbench.report import suite_tables
from nightbench.report.run_report import (
    USE_COLUMNS,
    WORST_FIRST,
    RunReport,
    absent_figures,
    caveats,
    hardware_rows,
    headline,
    use_rows,
    version_rows,
)
from nightbench.report.tables import (
    change,
    errors_once,
    figure,
    live,
    markdown_row,
    markdown_table,
    verdict,
    verdict_lines,
)

Row = Mapping[str, Any]

MOST_FIGURES = 120
"""Histories that are drawn; of more cases the best ones are left out, and the page says so."""

_AREA = PlotArea(300, 110, left=46, right=8, top=8, bottom=20, steps=2)
_INTERVAL_WIDTH, _INTERVAL_HEIGHT = 120, 16


@dataclasses.dataclass(frozen=True)
class History:
    """A small plot of the nights of a case; lengths in units of its view box."""

    case_id: str
    word: str
    """Verdict."""
    said: str
    """What the plot shows, in words."""
    line: str
    """Points of the polyline."""
    last: tuple[float, float]
    baseline: float | None
    ticks: tuple[tuple[float, str], ...]
    dates: tuple[tuple[float, str, str], ...]
    """Distance from the left, text, and how it is anchored."""
    area: PlotArea = _AREA


@dataclasses.dataclass(frozen=True)
class Interval:
    """The interval of a change on an axis that all rows share; None is beyond the edge."""

    zero: float
    low: float
    high: float
    middle: float


def report_text(report: RunReport) -> str:
    """Return the report of a run as Markdown."""
    text = templates().get_template("run_report.md")
    return text.render(_said(report, report.rows), table=markdown_table(report.rows), report=report)


def report_page(report: RunReport, written_at: datetime) -> str:
    """Return the report of a run as a page."""
    rows = report.worst_first()
    drawn = [row for row in rows if len(report.histories.get(row["case_id"], ())) > 1]
    counts = Counter(verdict(row) for row in rows)
    most = max((abs(row["change"]) for row in rows if row["change"] is not None), default=0.0)
    return (
        templates()
        .get_template("run_report.html")
        .render(
            _said(report, rows),
            counts=[(word, counts[word]) for word in WORST_FIRST if counts[word]],
            intervals={row["case_id"]: _interval(row, most) for row in rows},
            histories=[
                _history(row, report.histories[row["case_id"]]) for row in drawn[:MOST_FIGURES]
            ],
            undrawn=len(drawn[MOST_FIGURES:]),
            tables=[
                (
                    suite_tables.heading(table, cells),
                    suite_tables.grid(table, cells),
                    suite_tables.footnotes(cells),
                )
                for table, cells in report.tables
            ],
            written_at=written_at.astimezone(UTC),
            interval_size=(_INTERVAL_WIDTH, _INTERVAL_HEIGHT),
        )
    )


def _said(report: RunReport, rows: Sequence[Row]) -> dict[str, Any]:
    method = templates().get_template("method.txt").render(plan=report.plan)
    return {
        "run": report.run,
        "rows": rows,
        "headline": headline(rows),
        "verdicts": list(verdict_lines(rows)),
        "errors": [(named, said) for said, named in errors_once(rows).items()],
        "use_columns": USE_COLUMNS,
        "use": use_rows(rows),
        "absent": absent_figures(rows),
        "method": [" ".join(each.split()) for each in method.split("\n\n")],
        "hardware": hardware_rows(report),
        "versions": version_rows(report),
        "caveats": caveats(report),
        "nodes": report.nodes,
        "notes": report.notes,
    }


def _interval(row: Row, most: float) -> Interval | None:
    """Where the interval of a row's change lies on the run's axis; None without one."""
    if row["change"] is None:
        return None
    edge = max(1.25 * most, 0.02)
    low, high = row["change_low"], row["change_high"]

    def x(value: float) -> float:
        share = (min(max(value, -edge), edge) + edge) / (2 * edge)
        return round(4 + share * (_INTERVAL_WIDTH - 8), 1)

    ends = (row["change"] if low is None else low, row["change"] if high is None else high)
    middle = row["change"] if row["level_change"] is None else row["level_change"]
    return Interval(x(0.0), x(ends[0]), x(ends[1]), x(middle))


def _history(row: Row, nights: Sequence[Row]) -> History:
    dates = [night["started_at"] for night in nights]
    values = [night["throughput"] for night in nights]
    # The plot is of the throughput.
    baseline = row["baseline"] if row["metric"] == "throughput" else None
    visible = values if baseline is None else [*values, baseline]
    geometry = PlotGeometry.of(_AREA, dates, visible)
    points = [(geometry.x(at), geometry.y(value)) for at, value in zip(dates, values, strict=True)]
    said = (
        f"{len(nights)} nights, {dates[0]:%Y-%m-%d} to {dates[-1]:%Y-%m-%d}: "
        f"{figure(min(values))} to {figure(max(values))} {row['unit']}/s, "
        f"last {figure(values[-1])}"
    )
    return History(
        case_id=row["case_id"],
        word=verdict(row),
        said=said,
        line=" ".join(f"{x},{y}" for x, y in points),
        last=points[-1],
        baseline=None if baseline is None else geometry.y(baseline),
        ticks=tuple((geometry.y(step), figure(step)) for step in geometry.steps),
        dates=(
            (_AREA.left, f"{dates[0]:%Y-%m-%d}", "start"),
            (_AREA.width - _AREA.right, f"{dates[-1]:%Y-%m-%d}", "end"),
        ),
    )


@cache
def templates() -> Environment:
    """Return the templates of pages, with the filters that they use."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).resolve().parent / "templates"),
        autoescape=select_autoescape(("html", "xml")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "figure": figure,
        "night": _night,
        "percent": percent,
        "change": change,
        "verdict": verdict,
        "live": live,
        "markdown_row": markdown_row,
    }
    return environment


def _night(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
