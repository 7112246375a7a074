"""What came of a run: rows from the warehouse, or from its files where that is away."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from nightbench.cli import common
from nightbench.cli.common import err, out, say
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, Run
from nightbench.report import (
    ResultsTable,
    digest_text,
    from_measurements,
    from_warehouse,
    verdict_lines,
    write_digest,
)
from nightbench.spool import RunSpool, Spool, SpoolError
from nightbench.warehouse.connection import WarehouseUnavailable

Row = dict[str, Any]
VERDICTS_TIMEOUT_S = 120.0
_GOOD = frozenset({"ok", "improved", "insufficient_data", None})


def results_of(run_id: str | None) -> tuple[list[Row], str | None]:
    """Return the rows of a run, the newest by default, and a note on where they are from.

    Raises:
        UserError: there is no such run.
    """
    spool = common.spool()
    load_waiting(spool)
    try:
        rows = from_warehouse(common.open_reader().results_rows(run_id))
        away = None
    except WarehouseUnavailable as error:
        rows, away = [], str(error)
    if rows:
        told = spool.run(str(rows[0]["run_id"]))
        if told.run() is None or told.loaded() is not None:
            return rows, None
        # Planned, and not loaded: what has been measured so far lies in its files.
        run_id = told.run_id
    runs = [run.run_id for run in spool.runs()]
    if run_id is not None and run_id not in runs:
        where = f"the warehouse cannot be asked: {away}" if away else "nor the warehouse"
        raise UserError(f'run: found "{run_id}"; {spool.root} does not hold it; {where}')
    if not runs or (run_id is None and away is None):
        return [], None
    chosen = run_id or runs[-1]
    note = (
        f"The warehouse is away ({away}): these figures are from {spool.root}/runs/{chosen}, "
        "without verdicts. `nightbench results` loads them when it is back."
        if away
        else f"{chosen} is not loaded yet: these figures are from its files, without verdicts"
        + ("." if (spool.run(chosen).run() or {}).get("ended_at") else "; it goes on.")
    )
    return rows_from_files(spool, chosen), note


def load_waiting(spool: Spool) -> None:
    """Load the direct runs that ended while the warehouse was away, if it answers now."""
    waiting = [run for run in spool.runs() if run.loaded() is None and _ended_directly(run)]
    if not waiting:
        return
    try:
        common.open_warehouse().close()
    except WarehouseUnavailable:
        return
    # Checks take many seconds to import: only now is it known that they are needed.
    from nightbench.night import ingest, judge

    for run in waiting:
        try:
            said = ingest.ingest_run(spool, run.run_id, common.open_warehouse).sentence()
        except SpoolError as error:
            # It waits on, and keeps neither the others nor the answer to this command.
            err.print(f"run {run.run_id} still waits: {error}", markup=False, soft_wrap=True)
            continue
        judge.judge_run(spool, run.run_id, common.open_warehouse)
        err.print(said, markup=False, soft_wrap=True)


def _ended_directly(run: RunSpool) -> bool:
    document = run.run() or {}
    return bool(document.get("ended_at")) and not document.get("dag_run_id")


def rows_from_files(spool: Spool, run_id: str) -> list[Row]:
    """Return the rows of a run as its files say; planned cases that left none are missing."""
    from nightbench.night.bundles import build_bundle

    bundle = build_bundle(spool.run(run_id))
    measured = [case.measurement for case in bundle.cases if case.measurement is not None]
    rows = from_measurements(bundle.run, measured)
    goes_on = not (spool.run(run_id).run() or {}).get("ended_at")
    if goes_on:
        for row in rows:
            store = spool.run(run_id).latest(row["case_id"])
            if store is not None and store.outcome() is None:
                row.update(status="running", verdict=None, quarantined=False, reasons=[])
    there = {row["case_id"] for row in rows}
    absent = [planned for planned in bundle.planned if planned.case_id not in there]
    missing = from_warehouse(
        {
            **planned.case.axes(),
            "case_id": planned.case_id,
            "run_id": run_id,
            "run_kind": str(bundle.run.run_kind),
            "cluster": bundle.run.cluster,
            "build_id": planned.build.build_id,
            "unit": planned.unit,
            "status": "waiting" if goes_on else "missing",
            "n": 0,
            "quarantined": False,
        }
        for planned in absent
    )
    return rows + missing


def show_run(run_id: str, *, await_verdicts: bool) -> list[Row]:
    """Print what came of a run and write its digest.

    Args:
        run_id: the run.
        await_verdicts: wait for the verdicts, which Airflow makes a little after loading.

    Returns:
        The rows that were shown, one for each case.
    """
    rows, note = results_of(run_id)
    until = time.monotonic() + (VERDICTS_TIMEOUT_S if await_verdicts else 0.0)
    while note is None and any(map(is_open, rows)):
        if time.monotonic() > until:
            if await_verdicts:
                note = "No verdicts yet: the DAG regressions makes them. Later: nightbench results"
            break
        time.sleep(1.0)
        rows, note = results_of(run_id)
    out.print(ResultsTable(rows, title=run_id))
    for line in verdict_lines(rows):
        say(line)
    for build, version in special_builds(rows):
        say(f"{'build:':13} {build} ({version})")
    if note:
        err.print(note, markup=False, soft_wrap=True)
    say(f"report:       {digest_file(run_id, rows)}")
    for name, where in places_to_look(run_id):
        say(f"{name + ':':13} {where}")
    return rows


def special_builds(rows: list[Row]) -> list[tuple[str, str]]:
    """Return the builds that were asked for in place of the locked ones, with their versions."""
    found = {
        str(row["build_id"]): str(row["framework_version"] or "not measured")
        for row in rows
        if row["build_id"] and not str(row["build_id"]).endswith("-index-locked")
    }
    return sorted(found.items())


def places_to_look(run_id: str) -> list[tuple[str, str]]:
    """Return where more about a run is, on this machine's control plane; empty without one."""
    from nightbench.local import deployment

    place = common.home()
    if not place.secrets_file.is_file() or not place.ports_file.is_file():
        return []
    access = deployment.logins(place)
    return [
        ("results page", f"{access.ui}/nightbench/?run={run_id}"),
        ("Airflow UI", f"{access.ui}   (user {access.user}, password {access.password})"),
        ("warehouse", access.psql),
    ]


def is_open(row: Row) -> bool:
    """Say whether the verdict on a row is still to come; what was left out gets none."""
    return row["verdict"] is None and row["status"] != CaseStatus.LEFT_OUT


def is_good(row: Row) -> bool:
    """Say whether a row is what one hopes for: measured, sound, and not regressed.

    A case that the night had no room for is no fault of the run's.
    """
    if row["status"] == CaseStatus.LEFT_OUT:
        return True
    return row["status"] == "ok" and not row["quarantined"] and row["verdict"] in _GOOD


def is_unavailable(row: Row) -> bool:
    """Say whether a case was not measured because its framework cannot be had on a node."""
    return bool(row["status"] == CaseStatus.UNAVAILABLE)


def digest_file(run_id: str, rows: list[Row]) -> Path:
    """Write the digest of a run, and return its path."""
    from nightbench.spool.plans import read_plan

    place, spool = common.home(), common.spool()
    run: Run = read_plan(spool.run(run_id)).run
    notes = [f"Files of the run: `{spool.run(run_id).folder}`"]
    # The password is for the terminal of its owner; a report may be passed on.
    notes += [f"{name}: {where.partition('   (')[0]}" for name, where in places_to_look(run_id)]
    return write_digest(place.reports, run, digest_text(run, rows, notes))
