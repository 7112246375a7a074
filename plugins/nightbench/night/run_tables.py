"""The tables of a run's suite: filled with newest medians, as Markdown and as figures."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from nightbench.config import find_suites, load_catalog, load_suite, locations
from nightbench.config.run_request import cluster_of
from nightbench.config.scales import FULL
from nightbench.config.source import read_document
from nightbench.core.errors import UserError
from nightbench.core.model import RunKind, Suite, SuiteTable
from nightbench.core.run_plan import RunPlan
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


def write_run_tables(plan: RunPlan, stored: TableRepository, folder: Path) -> str:
    """Draw the tables of a run's suite; return them as Markdown, with links to the figures.

    Tables without any median are left out. What is wrong with the suite's file by now is said in
    their place.

    Args:
        plan: of the run, whose cluster and scale are shown.
        stored: reads medians and published figures.
        folder: of the run's digest; the figures go to `<run_id>/<table>.svg` and `.png` below it.
    """
    run = plan.run
    path = find_suites(locations.dags_folder()).get(run.suite)
    if path is None or not plan.cases or run.run_kind not in (RunKind.NIGHTLY, RunKind.ON_DEMAND):
        return ""
    try:
        if not read_document(path).data.get("tables"):
            return ""
        catalog = load_catalog(locations.benchmarks_folder())
        cluster = cluster_of(run.cluster, catalog, beside=path)
        scale = plan.cases[0].planned.case.scale
        suite = load_suite(path, catalog, cluster=cluster, scale=scale)
    except UserError as error:
        return f"Not shown: {error}"
    parts = []
    for table, cells in fill_tables(suite, scale, stored):
        if any(cell.value is not None for cell in cells):
            parts.append(suite_tables.to_markdown(table, cells).rstrip())
            charts.write_charts(table, cells, folder / run.run_id)
            figure = f"{run.run_id}/{table.name}"
            parts.append(f"![{table.title}]({figure}.png)\n\n[as SVG]({figure}.svg)")
    return "\n\n".join(parts)
