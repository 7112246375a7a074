"""results, clean; reads the rows of a run from the warehouse or from its files."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import FAILED, out, say, warn
from nightbench.config.control_plane import ControlPlane, control_plane
from nightbench.core.atomic_files import replaced_file
from nightbench.core.errors import UserError, WarehouseUnavailable
from nightbench.core.model import CaseStatus, gain_of
from nightbench.core.printable import shown
from nightbench.night.load_batch import build_load_batch
from nightbench.report import (
    ResultsTable,
    from_measurements,
    from_warehouse,
    report_page,
    report_text,
    verdict_lines,
)
from nightbench.spool import Spool
from nightbench.spool.plans import read_plan

app = typer.Typer()

Row = dict[str, Any]
VERDICTS_TIMEOUT_S = 120.0
_GOOD = frozenset({"ok", "watched", "improved", "insufficient_data", None})


@app.command()
def results(
    run: Annotated[
        str | None, typer.Option("--run", "-r", help="Id of a run. [default: the newest run]")
    ] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="Suite whose newest run to show.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-c", help="Cluster whose newest run to show.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a report: .html (one page without scripts or other files) or .md "
            "(Markdown).",
        ),
    ] = None,
    json: common.JsonOption = False,
) -> None:
    """Show a run's medians with repeats, spread, speed-up, efficiency, verdict; or write a report.

    Medians are read from the warehouse, or from the run's files on this machine if the warehouse
    does not answer. A report also has plots, method, hardware, versions and caveats.
    """
    if suite or cluster:
        run = _newest_run(run, suite, cluster)
    if report is not None:
        _write_report(run or _newest_run(None, None, None), report)
        return
    rows, source = results_of(run)
    none = "No run has been loaded yet. To make a run: nightbench demo"
    if common.all_said(rows, none, json=json):
        return
    out.print(ResultsTable(rows, title=f"{rows[0]['run_id']} on {rows[0]['cluster']}"))
    for line in verdict_lines(rows):
        say(line)
    if source:
        warn(source)


@app.command()
def clean(
    cluster: Annotated[
        list[str] | None,
        typer.Option("--cluster", "-c", help="Cluster to clean. Repeatable. [default: local]"),
    ] = None,
    keep_days: Annotated[
        float, typer.Option(min=0, help="Days to keep jobs, environments and files.")
    ] = 14.0,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Remove only processes; keep jobs, environments and runs."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list orphans.")] = False,
    json: common.JsonOption = False,
) -> None:
    """Remove old jobs, environments and orphaned processes from nodes, and old loaded runs.

    An orphan is a process of Nightbench that continues although its agent has ended.

    Exit codes:

    - 0: everything was removed.
    - 1: an orphan still runs, or a node does not answer.
    """
    from nightbench import gang

    known = common.catalog()
    wrong, keep = False, dry_run or orphans
    answers: dict[str, Any] = {}
    show = warn if json else say
    for name in cluster or ["local"]:
        where = common.cluster_of(name, known)
        try:
            shipment = common.shipment(where)
            targets = common.targets(where)
            swept = asyncio.run(gang.sweep(where, targets, shipment, kill=not dry_run))
            removed = {} if keep else asyncio.run(gang.clean(where, targets, shipment, keep_days))
        except UserError as error:
            wrong = True
            warn(f"{name}: {error}")
            continue
        answers[name] = swept
        for node, answer in swept.items():
            if answer.get("problem"):
                wrong = True
                warn(f"{name}: {answer['problem']}")
            for process in answer["found"]:
                ended = process["pid"] in answer["killed"]
                wrong = wrong or not ended
                what = "ended" if ended else "orphan" if dry_run else "NOT ENDED"
                show(
                    f"{name} {node}: {what} {process['pid']} of {process['job']}: {process['cmd']}"
                )
        for node, answer in removed.items():
            for path in answer.get("removed", []):
                show(f"{name} {node}: removed {path}")
    if not keep:
        for run_id in common.spool().expire(keep_days):
            show(f"spool: removed {run_id}")
    if json:
        common.print_json(answers)
    if wrong:
        raise typer.Exit(FAILED)
    show("no orphans" if dry_run else "clean")


def _newest_run(run: str | None, suite: str | None, cluster: str | None) -> str:
    if run is not None:
        raise UserError("--run cannot be combined with --suite or --cluster")
    with common.reader() as warehouse:
        newest = warehouse.runs.latest(suite, cluster)
    if newest is None:
        where = (f" of {suite}" if suite else "") + (f" on {cluster}" if cluster else "")
        raise UserError(f"found no loaded run{where} (`nightbench runs` lists them)")
    return newest


# --- the rows of a run ---------------------------------------------------------------------


def results_of(run_id: str | None) -> tuple[list[Row], str | None]:
    """Return the rows of a run, the newest by default, and a note on their source.

    Raises:
        UserError: there is no such run.
    """
    spool = common.spool()
    load_waiting(spool)
    try:
        with common.reader() as warehouse:
            rows = from_warehouse(warehouse.runs.results(run_id))
        away = None
    except WarehouseUnavailable as error:
        rows, away = [], str(error)
    if rows:
        stored = spool.run(str(rows[0]["run_id"]))
        if stored.run() is None or stored.loaded() is not None:
            return rows, None
        # Planned, not loaded: the run's files contain the results so far.
        run_id = stored.run_id
    runs = [run.run_id for run in spool.runs()]
    if run_id is not None and run_id not in runs:
        where = f"; the warehouse does not answer: {away}" if away else " nor in the warehouse"
        raise UserError(f"run: found {shown(run_id)}; it is not in {spool.root}{where}")
    if not runs or (run_id is None and away is None):
        return [], None
    chosen = run_id or runs[-1]
    note = (
        f"The warehouse does not answer ({away}): values are from {spool.root}/runs/{chosen}, "
        "without verdicts. `nightbench results` loads them when the warehouse answers."
        if away
        else f"{chosen} is not loaded into the warehouse yet: these values are from its files and "
        "have no verdicts" + ("." if spool.run(chosen).has_ended else "; it is still running.")
    )
    return rows_from_files(spool, chosen), note


def load_waiting(spool: Spool) -> None:
    """Load the direct runs that ended while the warehouse was away, if the warehouse answers."""
    waiting = [
        run
        for run in spool.runs()
        if run.loaded() is None and run.has_ended and not (run.run() or {}).get("dag_run_id")
    ]
    if not waiting:
        return
    try:
        common.open_warehouse().close()
    except WarehouseUnavailable:
        return
    # Imported here: the checks take many seconds to import, and are seldom needed.
    from nightbench.night import ingest, judge

    for run in waiting:
        try:
            said = ingest.ingest_run(spool, run.run_id, common.open_warehouse)
        except UserError as error:
            warn(f"run {run.run_id} is not loaded yet: {error}")
            continue
        judge.judge_run(spool, run.run_id, common.open_warehouse)
        warn(said)


def rows_from_files(spool: Spool, run_id: str) -> list[Row]:
    """Return the rows of a run from its files; planned cases without one have status missing."""
    batch = build_load_batch(spool.run(run_id))
    measured = [case.measurement for case in batch.cases if case.measurement is not None]
    errors = {
        case.case.case_id: repeat.record.error
        for case in batch.cases
        for repeat in case.repeats
        if repeat.record.error
    }
    rows = from_measurements(batch.run, measured, planned=batch.planned, errors=errors)
    is_running = not spool.run(run_id).has_ended
    if is_running:
        for row in rows:
            store = spool.run(run_id).latest(row["case_id"])
            if store is not None and store.outcome() is None:
                row.update(status="running", verdict=None, quarantined=False, reasons=[])
    there = {row["case_id"] for row in rows}
    absent = [planned for planned in batch.planned if planned.case_id not in there]
    missing = from_warehouse(
        {
            **planned.case.axes(),
            "case_id": planned.case_id,
            "run_id": run_id,
            "run_kind": str(batch.run.run_kind),
            "cluster": batch.run.cluster,
            "build_id": planned.build.build_id,
            "private_build": planned.private_build,
            "untried": planned.untried,
            "unit": planned.unit,
            "status": "waiting" if is_running else "missing",
            "n": 0,
            "quarantined": False,
        }
        for planned in absent
    )
    return rows + missing


def show_run(run_id: str, *, await_verdicts: bool) -> list[Row]:
    """Print the results of a run and write its report.

    Airflow stores verdicts a little after loading; the command waits for them if asked.

    Returns:
        The rows that were shown, one for each case.
    """
    rows, note = results_of(run_id)
    until = time.monotonic() + VERDICTS_TIMEOUT_S
    # Cases that were left out get no verdict.
    while (
        await_verdicts
        and note is None
        and any(row["verdict"] is None and row["status"] != CaseStatus.LEFT_OUT for row in rows)
    ):
        if time.monotonic() > until:
            note = "No verdicts yet: see the DAG nightbench_verdicts, then run: nightbench results"
        else:
            time.sleep(1.0)
            rows, note = results_of(run_id)
    out.print(ResultsTable(rows, title=run_id))
    for line in (*verdict_lines(rows), *settling_lines(run_id, rows)):
        say(line)
    special = {
        f"{row['build_id']} ({row['framework_version'] or 'not measured'})"
        for row in rows
        if row["build_id"] and not str(row["build_id"]).endswith("-index-locked")
    }
    for build in sorted(special):
        say(f"{'build:':13} {build}")
    if pythons := sorted({(row["python"], row["framework"]) for row in rows if row["python"]}):
        say(f"{'Python:':13} {', '.join(f'{line} {python}' for python, line in pythons)}")
    if note:
        warn(note)
    say(f"report:       {_report_file(run_id, rows)}")
    if page := _page_of(run_id):
        say(page[0])
        common.show_access()
    return rows


def _page_of(run_id: str) -> list[str]:
    """Return the line with a run's page on this machine's control plane; empty without one."""
    from nightbench.local import deployment

    if control_plane() is not ControlPlane.LOCAL:
        return []
    site = deployment.logins(common.home()).ui
    return [f"results page: {site}/plugin/benchmarks/runs/{run_id}"]


def is_good(row: Row) -> bool:
    """Return whether a case was measured, passed its checks, and is not clearly below its nights.

    A case that the night had no room for counts as good.
    """
    if row["status"] == CaseStatus.LEFT_OUT:
        return True
    if _is_clearly_below(row):
        return False
    return row["status"] == "ok" and not row["quarantined"] and row["verdict"] in _GOOD


def _is_clearly_below(row: Row) -> bool:
    """Return whether a result is worse than its nights by more than their noise."""
    gain = gain_of(row["change"], row["metric"] or "throughput")
    return row["verdict"] == "watched" and gain is not None and gain < 0


def settling_lines(run_id: str, rows: list[Row]) -> list[str]:
    """For each case clearly below its nights, return the command that checks the case."""
    below = {row["case_id"]: row for row in rows if _is_clearly_below(row)}
    if not below:
        return []
    plan = read_plan(common.spool().run(run_id))
    lines = []
    for planned in (case.planned for case in plan.cases if case.planned.case_id in below):
        case_id, build = planned.case_id, planned.build
        row = below[case_id]
        nights, here = (
            str(version).partition("+")[0] if version else None
            for version in (row["nightly_version"], row["framework_version"])
        )
        candidate = build.location or build.version or here
        if nights is None or (candidate in (None, nights)):
            settle = f"nightbench doctor {plan.run.cluster} (the build has not changed)"
        else:
            settle = (
                f"nightbench compare {build.line}={nights} {build.line}={candidate} "
                f"--case {case_id}"
            )
        lines.append(f"{case_id} is clearly below its earlier nights. To check this case: {settle}")
    return lines


def _report_file(run_id: str, rows: list[Row]) -> Path:
    """Write the reports of a run, and return the path of the Markdown one."""
    from nightbench.night.run_report_data import from_files, gather, keep_report

    place, folder = common.home(), common.spool().run(run_id)
    plan = read_plan(folder)
    notes = [f"Files of the run: `{folder.folder}`", *_page_of(run_id)]
    try:
        with common.reader() as warehouse:
            report = gather(warehouse, plan.run, rows, folder, notes, place.reports)
    except WarehouseUnavailable:
        report = from_files(folder, rows, notes)  # the rows are from the spool, too
    return keep_report(report, place.reports)


def _write_report(run_id: str, path: Path) -> None:
    from nightbench.night.run_report_data import gather

    if path.suffix not in (".html", ".md"):
        raise UserError(f"--report: found {shown(str(path))}; expected a file *.html or *.md")
    with common.reader() as stored:
        chosen = stored.runs.get(run_id)
        if chosen is None:
            raise UserError(
                f"--run: found {shown(run_id)}; expected the id of a loaded run "
                "(`nightbench runs` lists them)"
            )
        rows = from_warehouse(stored.runs.results(chosen.run_id))
        log = f"Show a log: nightbench logs --run {run_id} --case CASE"
        notes = [*_page_of(run_id), log]
        made = gather(stored, chosen, rows, common.spool().run(run_id), notes)
    is_page = path.suffix == ".html"
    text = report_page(made, datetime.now(UTC)) if is_page else report_text(made)
    with replaced_file(path) as new:
        new.write_text(text, encoding="utf-8")
    say(f"{path.absolute()}: {len(rows)} cases of {chosen.run_id}")
