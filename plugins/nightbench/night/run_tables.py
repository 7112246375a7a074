"""The tables of a run's suite: filled with newest medians, as Markdown and as figures."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from nightbench.config import find_suites, load_catalog, load_suite, locations
from nightbench.config.run_request import cluster_of
from nightbench.config.scales import FULL
from nightbench.config.source import read_document
from nightbench.core.errors import UserError
from nightbench.core.model import Run, RunKind, Suite, SuiteTable
from nightbench.core.tables import Cell, fill
from nightbench.report import charts, suite_tables
from nightbench.warehouse.tables import TableRepository

FilledTable = tuple[SuiteTable, list[Cell]]


def fill_tables(
    suite: Suite, scale: str, stored: TableRepository, only: Collection[str] = ()
) -> list[FilledTable]:
    """Return the tables of a suite, or those that are named, with the newest medians.

    Args:
        suite: read at `scale`, for the cluster whose medians are shown.
        scale: published figures stand beside the full one alone.
        stored: reads medians and published figures.
        only: names of tables; all when empty.
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


def tables_of(run: Run, scale: str, stored: TableRepository) -> list[FilledTable]:
    """Return the tables of a run's suite that hold a median; none where its file is wrong by now.

    Args:
        run: whose suite and cluster are shown; nothing of a run of another kind than a night's or
            one on demand.
        scale: of its cases.
        stored: reads medians and published figures.
    """
    try:
        return _tables_of(run, scale, stored)
    except UserError:
        return []


def write_run_tables(
    run: Run, scale: str, stored: TableRepository, folder: Path | None = None
) -> str:
    """Return the tables of a run's suite as Markdown, with links to figures where they are drawn.

    Tables without any median are left out. What is wrong with the suite's file by now is said in
    their place.

    Args:
        run: whose suite and cluster are shown.
        scale: of its cases.
        stored: reads medians and published figures.
        folder: of the run's report; the figures go to `<run_id>/<table>.svg` and `.png` below it.
            None draws none.
    """
    try:
        tables = _tables_of(run, scale, stored)
    except UserError as error:
        return f"Not shown: {error}"
    parts = []
    for table, cells in tables:
        parts.append(suite_tables.to_markdown(table, cells).rstrip())
        if folder is not None:
            charts.write_charts(table, cells, folder / run.run_id)
            figure = f"{run.run_id}/{table.name}"
            parts.append(f"![{table.title}]({figure}.png)\n\n[as SVG]({figure}.svg)")
    return "\n\n".join(parts)


def _tables_of(run: Run, scale: str, stored: TableRepository) -> list[FilledTable]:
    path = find_suites(locations.dags_folder()).get(run.suite)
    if path is None or run.run_kind not in (RunKind.NIGHTLY, RunKind.ON_DEMAND):
        return []
    if not read_document(path).data.get("tables"):
        return []
    catalog = load_catalog(locations.benchmarks_folder())
    cluster = cluster_of(run.cluster, catalog, beside=path)
    suite = load_suite(path, catalog, cluster=cluster, scale=scale)
    filled = fill_tables(suite, scale, stored)
    return [each for each in filled if any(cell.value is not None for cell in each[1])]
