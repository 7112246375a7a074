"""Writes the digest of a run: one Markdown file with its results and verdicts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nightbench.core.sentences import percent
from nightbench.core.whole_files import replaced
from nightbench.report.run_report import (
    USE_COLUMNS,
    RunReport,
    absent_figures,
    caveats,
    hardware_rows,
    method_lines,
    use_rows,
    version_rows,
)
from nightbench.report.tables import (
    errors_once,
    figure,
    markdown_row,
    markdown_table,
    verdict,
    verdict_lines,
)

Row = Mapping[str, Any]


def headline(rows: Sequence[Row]) -> str:
    """Return the run in one line: how many cases came out how."""
    counts = Counter(verdict(row) for row in rows)
    counts["not judged"] = counts.pop("-", 0)
    bad = ("regressed", "failed", "missing", "cancelled", "unavailable", "quarantined")
    order = (*bad, "watched", "improved", "ok")
    words = [*order, *sorted(set(counts) - set(order))]
    said = ", ".join(f"{counts[word]} {word.replace('_', ' ')}" for word in words if counts[word])
    return f"{len(rows)} cases: {said}" if rows else "no case"


def report_text(report: RunReport) -> str:
    """Return the report of a run as Markdown."""
    run, rows = report.run, report.rows
    who = f", asked for by {run.requested_by}" if run.requested_by else ""
    parts = [
        f"# {run.suite} on {run.cluster}: {headline(rows)}",
        f"Run `{run.run_id}` ({run.run_kind}{who}), started {run.started_at.isoformat()}. "
        f"Code `{run.code_digest[:12]}`.",
        markdown_table(rows).rstrip(),
        *_points("Verdicts", list(verdict_lines(rows))),
    ]
    if errors := list(error_blocks(rows)):
        parts += ["## Errors", *errors]
    if report.markdown_tables:
        parts += ["## Tables", report.markdown_tables]
    versions = [f"{line} {version} ({build})" for line, version, build in version_rows(report)]
    parts += [
        "## Repeats",
        _details(rows),
        *_use(rows),
        *_points("Before comparing these figures", caveats(report)),
        *_points("Method", method_lines(report)),
        *_points("Hardware", [f"{nodes}: {said}" for nodes, said in hardware_rows(report)]),
        *_points("Versions", versions),
        *_points("Nodes", report.nodes),
        *_points("Where to look", report.notes),
    ]
    return "\n\n".join(parts) + "\n"


def _points(heading: str, points: Sequence[str]) -> list[str]:
    """Return a section of points in Markdown; nothing where there are none."""
    return [f"## {heading}", "\n".join(f"- {point}" for point in points)] if points else []


def _use(rows: Sequence[Row]) -> list[str]:
    used, head = use_rows(rows), [markdown_row(USE_COLUMNS), "|---|---|---:|---:|---:|---:|---:|"]
    table = "\n".join([*head, *map(markdown_row, used)])
    return ["## Use of the devices", table, *absent_figures(rows)] if used else []


def error_blocks(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the end of each failed case's traceback as Markdown, equal ones once."""
    for error, named in errors_once(rows).items():
        run_id = next(row["run_id"] for row in rows if row["case_id"] == named[0])
        text = "\n".join(f"    {line}" for line in error.splitlines())
        command = f"nightbench logs --run {run_id} --case {named[0]}"
        yield f"{', '.join(named)} (the whole log: `{command}`):\n\n{text}"


def _details(rows: Sequence[Row]) -> str:
    lines = [
        "| case | build | version | minimum | maximum | MAD | half-width | first step |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        first = row["time_to_first_step_s"]
        words = (
            row["case_id"],
            row["build_id"] or "-",
            row["framework_version"] or "-",
            figure(row["minimum"]),
            figure(row["maximum"]),
            figure(row["mad"]),
            percent(row["half_width"]),
            "-" if first is None else f"{first:.1f} s",
        )
        lines.append(markdown_row(words))
    lines.append(
        "\nMAD is the median absolute deviation; half-width is the relative 95 % confidence "
        "half-width from the t distribution on logarithms. An interval from fewer than six "
        "repeats says little."
    )
    return "\n".join(lines)


def write_report(folder: Path, run_id: str, suffix: str, text: str) -> Path:
    """Write `<folder>/<run_id><suffix>` by rename and return its path."""
    path = folder / f"{run_id}{suffix}"
    with replaced(path) as beside:
        beside.write_text(text, encoding="utf-8")
    return path
