"""Writes the digest of a loaded run: results, the suite's tables, nodes, links to details."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from nightbench.night.cluster_preflight import notes as node_notes
from nightbench.night.detector_grade import DetectorGrades
from nightbench.night.run_tables import write_run_tables
from nightbench.report import digest_text, from_warehouse, write_digest
from nightbench.report.digest import headline
from nightbench.spool import RunSpool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connect


def write_run_digest(
    run: RunSpool,
    connect: Connect,
    folder: Path,
    notes: Sequence[str],
    graded: DetectorGrades | None = None,
) -> tuple[str, Path]:
    """Write the digest of a run; return its headline and its path.

    Args:
        run: the run, which has been loaded.
        connect: opens a connection to the warehouse.
        folder: of all digests.
        notes: links and files with details, one line each.
        graded: grades of the detector, where known.

    Raises:
        UserError: the warehouse is away, or the run's files cannot be read.
    """
    plan = read_plan(run)
    with closing(connect()) as connection:
        stored = Warehouse(connection)
        rows = from_warehouse(stored.runs.results(run.run_id))
        tables = write_run_tables(plan, stored.tables, folder)
    lines = [*notes, graded.sentence()] if graded is not None else notes
    text = digest_text(plan.run, rows, lines, node_notes(run), tables)
    return headline(rows), write_digest(folder, plan.run, text)
