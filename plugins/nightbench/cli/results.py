"""results, clean, import: what is known, and tidying up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from nightbench.cli import common
from nightbench.cli.common import FAILED, err, out, say
from nightbench.config import locations
from nightbench.core.errors import UserError

app = typer.Typer()


@app.command()
def results(
    run: Annotated[
        str | None, typer.Option("--run", "-r", help="Id of a run; the newest unless given.")
    ] = None,
    json: common.JsonOption = False,
) -> None:
    """Show the medians of a run with n, spread, speed-up, efficiency and verdict.

    They come from the warehouse; where that is away, from the files of the run on this machine.
    """
    from nightbench.cli.outcome import results_of
    from nightbench.report import ResultsTable, verdict_lines

    rows, source = results_of(run)
    if json:
        common.print_json(rows)
        return
    if not rows:
        say("No run has been loaded yet. Make one: nightbench demo")
        return
    out.print(ResultsTable(rows, title=f"{rows[0]['run_id']} on {rows[0]['cluster']}"))
    for line in verdict_lines(rows):
        say(line)
    if source:
        err.print(source, markup=False, soft_wrap=True)


@app.command()
def clean(
    cluster: Annotated[
        list[str] | None,
        typer.Option("--cluster", "-c", help="Clusters to clean; `local` unless given."),
    ] = None,
    keep_days: Annotated[
        float, typer.Option(min=0, help="Keep jobs, environments and files this young.")
    ] = 14.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list orphans.")] = False,
) -> None:
    """Remove orphaned processes and old jobs and environments on nodes, and old loaded runs."""
    from nightbench import gang

    known = common.catalog()
    wrong = False
    for name in cluster or ["local"]:
        where = common.cluster_of(name, known)
        try:
            shipment = common.shipment(where)
            targets = common.reach(where)
            swept = asyncio.run(gang.sweep(where, targets, shipment, kill=not dry_run))
            removed = (
                {} if dry_run else asyncio.run(gang.clean(where, targets, shipment, keep_days))
            )
        except UserError as error:
            wrong = True
            err.print(f"{name}: {error}", markup=False, soft_wrap=True)
            continue
        for node, answer in swept.items():
            if answer.get("problem"):
                wrong = True
                err.print(f"{name}: {answer['problem']}", markup=False, soft_wrap=True)
            for process in answer["found"]:
                what = "found" if dry_run else "ended"
                say(f"{name} {node}: {what} {process.get('pid')} {process.get('job')}")
        for node, answer in removed.items():
            for path in answer.get("removed", []):
                say(f"{name} {node}: removed {path}")
    if not dry_run:
        for run_id in common.spool().expire(keep_days):
            say(f"spool: removed {run_id}")
    say("nothing was changed" if dry_run else "clean")
    if wrong:
        raise typer.Exit(FAILED)


@app.command("import")
def import_history(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header line.")],
) -> None:
    """Load a site's older results, so that verdicts do not start from nothing."""
    from nightbench.warehouse.history_csv import import_history as store

    report = store(common.open_warehouse(), file)
    say(f"{report.rows} medians of {report.runs} runs; {report.changed} were new or different")
    try:
        apart = sorted(report.series - _planned_series())
    except UserError as error:
        err.print(f"Not compared with the suites: {error}", markup=False, soft_wrap=True)
        return
    if apart:
        names = "\n".join(f"  {case_id} on {cluster}" for case_id, cluster in apart)
        err.print(
            f"No suite in {locations.dags_folder() / 'suites'} makes these cases on its own "
            f"cluster. If one should, compare the names with `nightbench plan SUITE`:\n{names}",
            markup=False,
            soft_wrap=True,
        )


def _planned_series() -> set[tuple[str, str]]:
    """The series of all suites, as case and cluster."""
    from nightbench.config import find_suites, load_suite

    catalog = common.catalog()
    suites = [load_suite(path, catalog) for path in find_suites(locations.dags_folder()).values()]
    return {(case.case_id, suite.cluster) for suite in suites for case in suite.cases}
