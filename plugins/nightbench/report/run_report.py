"""The report of a run: what it says, as Markdown, and as one HTML page without scripts.

The texts of both are in the folder `templates`; the page loads nothing.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from nightbench.causes.field_changes import flat
from nightbench.config.scales import FULL
from nightbench.core.atomic_files import replaced_file
from nightbench.core.model import Run, SuiteTable, reasons_from_json
from nightbench.core.plots import PlotArea, interval_plot, series_plot
from nightbench.core.run_plan import RunPlan
from nightbench.core.sentences import percent, sentence
from nightbench.core.tables import Cell
from nightbench.report import suite_tables
from nightbench.report.tables import (
    Row,
    change,
    errors_once,
    figure,
    live,
    markdown_row,
    markdown_table,
    verdict,
    verdict_lines,
)

FEW_REPEATS = 6
"""With fewer repeats, an interval is unreliable."""

USE_COLUMNS = ("case", "device", "TFLOP/s", "MFU", "tokens/s", "memory", "energy")
"""Model TFLOP/s and tokens/s of one device; highest memory of all ranks; J of all devices."""

WORST_FIRST = (
    *("regressed", "failed", "missing", "cancelled", "quarantined", "unavailable", "watched"),
    *("left_out", "insufficient_data", "-", "improved", "ok"),
)
"""Order of verdicts in reports."""


@dataclasses.dataclass(frozen=True)
class RunReport:
    """All that a report of a run shows; what is not known is empty."""

    run: Run
    rows: Sequence[Row]
    """Its results, see `report.rows`."""
    plan: RunPlan | None = None
    """As the spool holds it; None if the run has left it."""
    histories: Mapping[str, Sequence[Row]] = dataclasses.field(default_factory=dict)
    """case_id -> medians of its nights up to the run, oldest first: started_at, throughput."""
    hardware: Mapping[str, Row] = dataclasses.field(default_factory=dict)
    """Node -> its fingerprint/1 document."""
    tables: Sequence[tuple[SuiteTable, Sequence[Cell]]] = ()
    """Tables of the suite, filled."""
    markdown_tables: str = ""
    """The same as Markdown, with links to their plots."""
    nodes: Sequence[str] = ()
    """Findings of the preflight, one line each."""
    notes: Sequence[str] = ()
    """Where to look: links and files with details, one line each."""


def use_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return what each median took of its devices, cells below `USE_COLUMNS`."""
    return [
        (
            str(row["case_id"]),
            str(row["device"] or "-"),
            figure(row["tflops_per_device"]),
            percent(row["mfu"]),
            figure(row["tokens_per_s_per_device"]),
            _memory(row),
            "-"
            if row["joules_per_unit"] is None
            else f"{figure(row['joules_per_unit'])} J/{str(row['unit']).removesuffix('s')}",
        )
        for row in rows
        if row["throughput"] is not None
    ]


def _memory(row: Row) -> str:
    """Return the devices' memory if their allocator reports it, else the process's."""
    peak = row["peak_allocator_bytes"] or row["peak_resident_bytes"]
    return "-" if peak is None else f"{peak / 2**20:,.0f} MiB"


def absent_figures(rows: Sequence[Row]) -> list[str]:
    """Return why medians have no MFU or energy: each reason once, with how many cases have it."""
    said = []
    for name, column in (("MFU", "mfu_absent"), ("energy", "energy_absent")):
        reasons = Counter(row[column] for row in rows if row[column])
        found = [f"{why} ({n} {'cases' if n > 1 else 'case'})" for why, n in reasons.items()]
        said += [f"No {name}: {'; '.join(found)}."] if found else []
    return said


def printed_figures(rows: Sequence[Row]) -> list[str]:
    """Return the values that training scripts printed themselves, one sentence for each case."""
    return [
        f"Printed by {row['case_id']}: {', '.join(f'{k} {v:.10g}' for k, v in said.items())}."
        for row in rows
        if (said := row["reported"])
    ]


def hardware_rows(report: RunReport) -> list[tuple[str, str]]:
    """Return nodes and what they are; equal nodes share a row."""
    equal: dict[str, list[str]] = defaultdict(list)
    for node, document in sorted(report.hardware.items()):
        equal[hardware_text(flat(document))].append(node)
    return [(", ".join(nodes), said) for said, nodes in equal.items()]


def hardware_text(found: Mapping[str, str]) -> str:
    """Return what a node is from the fields of its fingerprint that are known."""
    cpu = [found["cpu.model"]] if "cpu.model" in found else []
    for what in ("sockets", "cores", "threads"):
        if (count := found.get(f"cpu.{what}")) is not None:
            cpu.append(f"{count} {what.removesuffix('s') if count == '1' else what}")
    if memory := found.get("memory_bytes"):
        cpu.append(f"{int(memory) / 2**30:.0f} GiB")
    parts = [", ".join(cpu)]
    gpus = Counter(
        f"{model} (driver {found.get(name.replace('.model', '.driver'), 'unknown')})"
        for name, model in sorted(found.items())
        if name.startswith("gpus.") and name.endswith(".model")
    )
    parts += [f"{count} x {name}" for name, count in gpus.items()]
    for name, rate in found.items():
        if name.startswith("infiniband.") and name.endswith(".rate"):
            layer = found.get(name.replace(".rate", ".link_layer"))
            parts.append(" ".join(filter(None, (name.split(".")[1], rate, layer))))
    parts += [f"{name} {found[name]}" for name in ("kernel", "governor", "os") if name in found]
    return "; ".join(filter(None, parts)) or "no fingerprint"


def version_rows(report: RunReport) -> list[tuple[str, str, str, str]]:
    """Return framework line, version as it said itself, Python, and build, each once."""
    found = {
        (
            str(row["framework"]),
            str(row["framework_version"] or "not measured"),
            str(row["python"] or "-"),
            str(row["build_id"] or "-") + (" (private build)" if row["private_build"] else ""),
        )
        for row in report.rows
    }
    return sorted(found)


def caveats(report: RunReport) -> list[str]:
    """Return what limits a comparison of the values, one sentence for each reason."""
    rows, measured = report.rows, [row for row in report.rows if _counts(row)]
    said = []
    synthetic = [row for row in measured if row["data"] == "synthetic"]
    if synthetic:
        said.append(
            f"{len(synthetic)} of {len(measured)} measured cases trained on synthetic data, so "
            "they read and decode no files: do not compare them with published values for real "
            "data."
        )
    small = sorted({str(row["scale"]) for row in measured if row["scale"] != FULL})
    if small:
        said.append(f"Cases of scale {', '.join(small)} do other work than cases of scale {FULL}.")
    if report.plan is not None and report.plan.cluster.shared:
        said.append(
            f"The nodes of {report.run.cluster} are shared: other jobs may have disturbed a case."
        )
    few = [row for row in measured if row["n"] < FEW_REPEATS]
    if few:
        said.append(
            f"{len(few)} cases have fewer than {FEW_REPEATS} repeats: unreliable intervals."
        )
    if len({row["precision"] for row in measured}) > 1:
        said.append("Do not compare cases of different precision with each other.")
    private = [row["case_id"] for row in rows if row["private_build"]]
    if private:
        said.append(f"Builds of this run only, without a history: {', '.join(private)}.")
    untried = {row["untried"] for row in measured if row["untried"]}
    said += [f"Some configurations are untried on this kind of device: {why}." for why in untried]
    for row in rows:
        if row["quarantined"]:
            reasons = "; ".join(sentence(each) for each in reasons_from_json(row["reasons"]))
            said.append(f"Quarantined, does not count: {row['case_id']}: {reasons}")
        if row["noisy"]:
            said.append(f"Noisy series, which opens no alert: {row['case_id']}: {row['noisy']}")
    return said


def _counts(row: Row) -> bool:
    return row["throughput"] is not None and not row["quarantined"]


def verdict_counts(rows: Sequence[Row]) -> dict[str, int]:
    """Return each verdict, the worst first, with the number of its rows."""
    counts = Counter(map(verdict, rows))
    order = {word: number for number, word in enumerate(WORST_FIRST)}
    return {word: counts[word] for word in sorted(counts, key=lambda each: order.get(each, 0))}


def headline(rows: Sequence[Row]) -> str:
    """Return the run in one line: how many cases came out how."""
    said = ", ".join(
        f"{count} {'not judged' if word == '-' else word.replace('_', ' ')}"
        for word, count in verdict_counts(rows).items()
    )
    return f"{len(rows)} cases: {said}" if rows else "no case"


def write_report(folder: Path, run_id: str, suffix: str, text: str) -> Path:
    """Write `<folder>/<run_id><suffix>` by rename and return its path."""
    path = folder / f"{run_id}{suffix}"
    with replaced_file(path) as new:
        new.write_text(text, encoding="utf-8")
    return path


MOST_FIGURES = 120
"""Largest number of plotted histories; with more cases, the best cases are left out."""

_AREA = PlotArea(300, 110, left=46, right=8, top=8, bottom=20, steps=2)


def report_text(report: RunReport) -> str:
    """Return the report of a run as Markdown."""
    text = templates().get_template("run_report.md")
    return text.render(_data(report, report.rows), table=markdown_table(report.rows), report=report)


def report_page(report: RunReport, written_at: datetime) -> str:
    """Return the report of a run as a page."""
    counts = verdict_counts(report.rows)
    order = list(counts)
    rows = sorted(report.rows, key=lambda row: (order.index(verdict(row)), row["case_id"]))
    drawn = [row for row in rows if len(report.histories.get(row["case_id"], ())) > 1]
    most = max((abs(row["change"]) for row in rows if row["change"] is not None), default=0.0)
    return (
        templates()
        .get_template("run_report.html")
        .render(
            _data(report, rows),
            counts=counts.items(),
            intervals={row["case_id"]: _interval(row, most) for row in rows},
            histories=[
                (row["case_id"], verdict(row), _history(row, report.histories[row["case_id"]]))
                for row in drawn[:MOST_FIGURES]
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
        )
    )


def _data(report: RunReport, rows: Sequence[Row]) -> dict[str, Any]:
    method = templates().get_template("method.txt").render(plan=report.plan)
    return {
        "run": report.run,
        "rows": rows,
        "headline": headline(rows),
        "verdicts": list(verdict_lines(rows)),
        "errors": [(named, said) for said, named in errors_once(rows).items()],
        "use_columns": USE_COLUMNS,
        "use": use_rows(rows),
        "remarks": [*absent_figures(rows), *printed_figures(rows)],
        "method": [" ".join(each.split()) for each in method.split("\n\n")],
        "hardware": hardware_rows(report),
        "versions": version_rows(report),
        "caveats": caveats(report),
        "nodes": report.nodes,
        "notes": report.notes,
    }


def _interval(row: Row, most: float) -> str:
    """The interval of a row's change on an axis that all rows share; empty without one."""
    if row["change"] is None:
        return ""
    low, high = row["change_low"], row["change_high"]
    return interval_plot(
        row["change"] if low is None else low,
        row["change"] if row["level_change"] is None else row["level_change"],
        row["change"] if high is None else high,
        max(1.25 * most, 0.02),
        f"change {change(row)}",
    )


def _history(row: Row, nights: Sequence[Row]) -> str:
    dates = [night["started_at"] for night in nights]
    values = [night["throughput"] for night in nights]
    said = (
        f"{len(nights)} nights, {dates[0]:%Y-%m-%d} to {dates[-1]:%Y-%m-%d}: "
        f"{figure(min(values))} to {figure(max(values))} {row['unit']}/s, "
        f"last {figure(values[-1])}"
    )
    # The plot is of the throughput.
    baseline = row["baseline"] if row["metric"] == "throughput" else None
    drawing, axes = series_plot(_AREA, dates, values, said, baseline=baseline)
    newest = (axes.x(dates[-1].timestamp()), axes.y(values[-1]))
    drawing.dot(newest, "currentColor", 3.5, title=said)
    return drawing.svg()


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
