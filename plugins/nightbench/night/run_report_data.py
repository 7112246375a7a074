"""Gathers what the report of a run shows, tables included, and keeps it as Markdown and HTML."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nightbench.config import find_suites, load_catalog, load_suite, locations
from nightbench.config.clusters import cluster_of
from nightbench.config.scales import FULL
from nightbench.config.source import read_document
from nightbench.core.errors import UserError
from nightbench.core.model import Run, RunKind, Suite, SuiteTable
from nightbench.core.tables import Cell, fill
from nightbench.night.cluster_preflight import notes as node_notes
from nightbench.report import (
    from_warehouse,
    report_page,
    report_text,
    suite_tables,
    write_report,
)
from nightbench.report.run_report import RunReport, headline
from nightbench.spool import RunSpool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import Warehouse, opened
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.tables import TableRepository

HISTORY_DAYS = 90
"""Nights that a report draws."""

Row = dict[str, Any]

FilledTable = tuple[SuiteTable, list[Cell]]


def fill_tables(
    suite: Suite, scale: str, stored: TableRepository, only: Collection[str] = ()
) -> list[FilledTable]:
    """Return the tables of a suite, or those named by `only`, with its cluster's newest medians.

    The suite is read at `scale`; published values are shown next to the full one alone.
    """
    filled = []
    for table in suite.tables:
        if only and table.name not in only:
            continue
        results = stored.results([case.case_id for case in table.cases], suite.cluster)
        workloads = {case.workload for case in table.cases}
        published = stored.published(table, workloads) if scale == FULL else []
        filled.append((table, fill(table, suite.skipped, results, published)))
    return filled


def write_run_tables(
    run: Run, scale: str, stored: TableRepository, folder: Path | None = None
) -> tuple[list[FilledTable], str]:
    """Return the tables of a run's suite that hold a median, and the same as Markdown.

    A run of another kind than a night's or one on demand has none. If the suite's file is wrong by
    now, the report says so in their place. The plots go to `<run_id>/<table>.svg` and `.png` below
    `folder`; None draws none.
    """
    try:
        tables = _tables_of(run, scale, stored)
    except UserError as error:
        return [], f"Not shown: {error}"
    parts = []
    for table, cells in tables:
        parts.append(suite_tables.to_markdown(table, cells).rstrip())
        if folder is not None:
            suite_tables.write_charts(table, cells, folder / run.run_id)
            figure = f"{run.run_id}/{table.name}"
            parts.append(f"![{table.title}]({figure}.png)\n\n[as SVG]({figure}.svg)")
    return tables, "\n\n".join(parts)


def _tables_of(run: Run, scale: str, stored: TableRepository) -> list[FilledTable]:
    path = find_suites(locations.dags_folder()).get(run.suite)
    if path is None or run.run_kind not in (RunKind.NIGHTLY, RunKind.ON_DEMAND):
        return []
    if not read_document(path).data.get("tables"):
        return []
    catalog = load_catalog()
    cluster = cluster_of(run.cluster, catalog, beside=path)
    suite = load_suite(path, catalog, cluster=cluster, scale=scale)
    filled = fill_tables(suite, scale, stored)
    return [each for each in filled if any(cell.value is not None for cell in each[1])]


def gather(
    stored: Warehouse,
    run: Run,
    rows: Sequence[Row],
    folder: RunSpool,
    notes: Sequence[str] = (),
    figures: Path | None = None,
) -> RunReport:
    """Return what the report of a run shows, whose files may have left the spool.

    The plots of the suite's tables go to `figures`, next to the Markdown that links to them.
    """
    case_ids = [row["case_id"] for row in rows]
    scale = next((str(row["scale"]) for row in rows), None)
    nodes = stored.causes.nodes(case_ids, [run.run_id])
    documents = stored.causes.fingerprints(
        {row["fingerprint_id"] for row in nodes if row["fingerprint_id"]}
    )
    tables, markdown = write_run_tables(run, scale, stored.tables, figures) if scale else ([], "")
    return RunReport(
        run=run,
        rows=rows,
        plan=None if folder.run() is None else read_plan(folder),
        histories=stored.exports.histories(run, case_ids, HISTORY_DAYS),
        hardware={
            row["node"]: documents[row["fingerprint_id"]]
            for row in nodes
            if row["fingerprint_id"] in documents
        },
        tables=tables,
        markdown_tables=markdown,
        nodes=node_notes(folder),
        notes=notes,
    )


def from_files(folder: RunSpool, rows: Sequence[Row], notes: Sequence[str] = ()) -> RunReport:
    """Return what the report of a run shows while the warehouse is away.

    Raises:
        UserError: the spool holds no plan of the run.
    """
    plan = read_plan(folder)
    hardware = {
        node.name: document
        for case_id in folder.case_ids()
        for node in plan.cluster.nodes
        if (store := folder.latest(case_id)) is not None
        and (document := store.fingerprint(node.name)) is not None
    }
    return RunReport(plan.run, rows, plan, hardware=hardware, nodes=node_notes(folder), notes=notes)


def keep_report(report: RunReport, folder: Path) -> Path:
    """Write a report as `<run_id>.html` and `<run_id>.md` below a folder; return the latter."""
    run_id = report.run.run_id
    write_report(folder, run_id, ".html", report_page(report, datetime.now(UTC)))
    return write_report(folder, run_id, ".md", report_text(report))


def write_run_report(
    run: RunSpool,
    connect: Connect,
    folder: Path,
    notes: Sequence[str],
) -> tuple[str, Path]:
    """Write the reports of a loaded run; return its headline and the path of the Markdown one.

    Raises:
        UserError: the warehouse is away, or the run's files cannot be read.
    """
    with opened(connect) as warehouse:
        rows = from_warehouse(warehouse.runs.results(run.run_id))
        report = gather(warehouse, read_plan(run).run, rows, run, notes, folder)
    return headline(rows), keep_report(report, folder)
