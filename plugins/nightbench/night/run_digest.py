"""Gathers what the report of a run shows, and keeps it as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nightbench.core.model import Run
from nightbench.core.run_plan import RunPlan
from nightbench.night.cluster_preflight import notes as node_notes
from nightbench.night.detector_grade import DetectorGrades
from nightbench.night.run_tables import tables_of, write_run_tables
from nightbench.report import from_warehouse, report_page, report_text, write_report
from nightbench.report.digest import headline
from nightbench.report.run_report import RunReport
from nightbench.spool import RunSpool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connect

HISTORY_DAYS = 90
"""Nights that a report draws."""

Row = dict[str, Any]


def gather(
    stored: Warehouse,
    run: Run,
    rows: Sequence[Row],
    folder: RunSpool,
    notes: Sequence[str] = (),
    figures: Path | None = None,
) -> RunReport:
    """Return what the report of a run shows.

    Args:
        stored: the warehouse.
        run: the run.
        rows: its results, see `report.rows`.
        folder: its files in the spool, which may be gone.
        notes: links and files with details, one line each.
        figures: where the figures of the suite's tables go, beside the Markdown that links to them.
    """
    plan = _plan(folder)
    case_ids = [row["case_id"] for row in rows]
    scale = next((str(row["scale"]) for row in rows), None)
    nodes = stored.causes.nodes(case_ids, [run.run_id])
    documents = stored.causes.fingerprints(
        {row["fingerprint_id"] for row in nodes if row["fingerprint_id"]}
    )
    return RunReport(
        run=run,
        rows=rows,
        plan=plan,
        histories=stored.exports.histories(run, case_ids, HISTORY_DAYS),
        hardware={
            row["node"]: documents[row["fingerprint_id"]]
            for row in nodes
            if row["fingerprint_id"] in documents
        },
        tables=tables_of(run, scale, stored.tables) if scale else (),
        markdown_tables=write_run_tables(run, scale, stored.tables, figures) if scale else "",
        nodes=node_notes(folder),
        notes=notes,
    )


def from_files(folder: RunSpool, rows: Sequence[Row], notes: Sequence[str] = ()) -> RunReport:
    """Return what the report of a run shows while the warehouse is away.

    Args:
        folder: its files in the spool.
        rows: its results, see `report.rows`.
        notes: links and files with details, one line each.

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


def _plan(folder: RunSpool) -> RunPlan | None:
    return None if folder.run() is None else read_plan(folder)


def keep_report(report: RunReport, folder: Path) -> Path:
    """Write a report as `<run_id>.html` and `<run_id>.md` below a folder; return the latter."""
    run_id = report.run.run_id
    write_report(folder, run_id, ".html", report_page(report, datetime.now(UTC)))
    return write_report(folder, run_id, ".md", report_text(report))


def write_run_digest(
    run: RunSpool,
    connect: Connect,
    folder: Path,
    notes: Sequence[str],
    graded: DetectorGrades | None = None,
) -> tuple[str, Path]:
    """Write the reports of a loaded run; return its headline and the path of the Markdown one.

    Args:
        run: the run, which has been loaded.
        connect: opens a connection to the warehouse.
        folder: of all reports.
        notes: links and files with details, one line each.
        graded: grades of the detector, where known.

    Raises:
        UserError: the warehouse is away, or the run's files cannot be read.
    """
    lines = [*notes, graded.sentence()] if graded is not None else notes
    with closing(connect()) as connection:
        stored = Warehouse(connection)
        rows = from_warehouse(stored.runs.results(run.run_id))
        report = gather(stored, read_plan(run).run, rows, run, lines, folder)
    return headline(rows), keep_report(report, folder)
