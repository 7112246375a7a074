"""import: a site's older results, and what the detector sees in them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer
from rich.progress import TimeRemainingColumn

from nightbench.cli import common
from nightbench.cli.common import say, warn
from nightbench.cli.detect import STANDARD_INPUT, show_reports
from nightbench.config import locations
from nightbench.core.errors import UserError
from nightbench.core.history_file import HistoryFile
from nightbench.core.model import RegressionPolicy

if TYPE_CHECKING:
    from nightbench.detection.history import HistoryReport
    from nightbench.night.imported_series import ImportedSeries

app = typer.Typer()


@app.command("import")
def import_history(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header line, or *.jsonl.")],
    alerts: Annotated[
        bool,
        typer.Option(
            "--alerts", help="Open an alert for each series that fell in its last nights."
        ),
    ] = False,
) -> None:
    """Load a site's older results, and show the changes that the detector sees in them."""
    from nightbench.night.imported_series import judge_imported, open_alerts
    from nightbench.warehouse import Warehouse
    from nightbench.warehouse.history_import import import_history as store
    from nightbench.warehouse.history_import import read_history

    try:
        entries = read_history(HistoryFile(STANDARD_INPUT if str(file) == "-" else file))
    except UserError as error:
        raise UserError(f"Nothing was imported:\n{error}") from None
    with closing(common.open_warehouse()) as connection:
        report = store(connection, entries)
        say(f"{report.rows} medians of {report.runs} runs; {report.changed} were new or different")
        _warn_of_unplanned(report.series)
        warehouse, policy = Warehouse(connection), RegressionPolicy()
        found: list[ImportedSeries] = []

        def kept(each: ImportedSeries) -> HistoryReport:
            found.append(each)
            return each.report

        with common.progress_bar(TimeRemainingColumn()) as progress:
            judged = judge_imported(warehouse, report.series, policy.reported_from)
            show_reports(
                progress.track(map(kept, judged), len(report.series), description="judging")
            )
        for line in _links(found):
            say(line)
        if alerts:
            opened = open_alerts(warehouse, found, policy.clear_change)
            names = ", ".join(f"{each.case_id} on {each.cluster}" for each in opened)
            say(f"opened {len(opened)} alerts" + (f": {names}" if names else ""))
        elif any(each.report.status == "regressed" for each in found):
            say("Some fell in their last 30 nights. To open alerts for these: add --alerts")


def _warn_of_unplanned(series: frozenset[tuple[str, str]]) -> None:
    try:
        apart = sorted(series - _planned_series())
    except UserError as error:
        warn(f"Not compared with the suites: {error}")
        return
    if apart:
        names = "\n".join(f"  {case_id} on {cluster}" for case_id, cluster in apart)
        warn(
            f"No suite in {locations.dags_folder() / 'suites'} makes these cases on its own "
            f"cluster. If one should, compare the names with `nightbench plan SUITE`:\n{names}"
        )


def _links(found: list[ImportedSeries]) -> list[str]:
    """Return addresses of the pages with these series; none without a control plane here."""
    from nightbench.local import deployment

    if deployment.find(common.home()) is None:
        return []
    page = f"{deployment.logins(common.home()).ui}/plugin/benchmarks/explore"
    clusters = sorted({each.cluster for each in found})
    return [f"series on {name}: {page}?{urlencode({'cluster': name})}" for name in clusters]


def _planned_series() -> set[tuple[str, str]]:
    """Return the series of all suites, as case and cluster."""
    from nightbench.config import find_suites, load_suite

    catalog = common.catalog()
    suites = [load_suite(path, catalog) for path in find_suites(locations.dags_folder()).values()]
    return {(case.case_id, suite.cluster) for suite in suites for case in suite.cases}
