"""Every cell of the public benchmarks has its place in a table of a shipped suite."""

from __future__ import annotations

from collections import Counter

import pytest

from nightbench.config import find_suites, load_catalog, load_suite
from nightbench.config.locations import benchmarks_folder, dags_folder
from nightbench.config.scales import FULL
from nightbench.core.tables import METRICS, fill

CATALOG = load_catalog(benchmarks_folder())
SUITES = [
    suite
    for path in find_suites(dags_folder()).values()
    if "\ntables:" in path.read_text()
    for suite in [load_suite(path, CATALOG, scale=FULL)]
]


def test_every_published_cell_stands_in_exactly_one_table(reader, rows):
    cells = {
        (row["source_document"], row["figure"], row["metric"]): row["cells"]
        for row in rows(
            "select source_document, figure, metric, count(*) as cells"
            " from staging.reference_result group by 1, 2, 3"
        )
    }
    found: Counter[tuple[str, str, str]] = Counter()
    for suite in SUITES:
        for table in suite.tables:
            workloads = {case.workload for case in table.cases}
            published = reader.tables.published(table, workloads)
            filled = fill(table, suite.skipped, {}, published)
            assert all(cell.reason for cell in filled), f"{suite.name} {table.name}"
            beside = [cell for cell in filled if cell.note is not None]
            assert len(beside) == len(published), f"{suite.name} {table.name}: {published}"
            chosen = table.published
            for figure in chosen.figures if chosen else ():
                key = (chosen.document, figure, METRICS[table.metric][0])
                one = chosen.model_copy(update={"figures": (figure,)})
                alone = table.model_copy(update={"published": one})
                found[key] += len(reader.tables.published(alone, workloads))
    assert +found == cells
    assert sum(found.values()) == 503


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_published_cells_stand_beside_cases_of_ours(suite, reader):
    """Only what has no line any more, and a batch that is searched, stands alone."""
    for table in suite.tables:
        published = reader.tables.published(table, {case.workload for case in table.cases})
        for cell in fill(table, suite.skipped, {}, published):
            if cell.case_id is None:
                absent = table.published.only.values() if table.published else ()
                alone = cell.reason in absent or "max" in cell.column
                assert alone, f"{table.name}: {cell.row} {cell.column}: {cell.reason}"
