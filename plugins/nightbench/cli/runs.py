"""runs: list the runs in the warehouse and in the spool."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import out, say, warn
from nightbench.core.errors import UserError
from nightbench.spool import RunSpool, Spool
from nightbench.spool.run import started_at

app = typer.Typer()

Row = Mapping[str, Any]

COUNTS = ("planned", "measured", "failed", "quarantined", "left_out")


@app.command()
def runs(
    suite: common.OnlySuiteOption = None,
    cluster: common.OnlyClusterOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Runs to list.")] = 20,
    json: common.JsonOption = False,
) -> None:
    """List runs, newest first, with their state and the number of measured cases."""
    try:
        with common.reader() as warehouse:
            stored = warehouse.runs.find(suite, cluster, limit)
    except UserError as error:
        warn(f"Only runs in the spool are listed, because the warehouse cannot be read: {error}")
        stored = []
    rows = newest(stored, spooled(common.spool(), suite, cluster), limit)
    if common.all_said(rows, "No run matches. To start a run: nightbench run demo", json=json):
        return
    columns = ("run", "cluster", "kind", "started (UTC)", "state")
    counts = [name.replace("_", " ") for name in COUNTS]
    lines = (
        (
            *(row[name] for name in ("run_id", "cluster", "run_kind")),
            str(row["started_at"] or "-")[:16].replace("T", " "),
            row["state"],
            *("-" if row[name] is None else str(row[name]) for name in COUNTS),
        )
        for row in rows
    )
    out.print(common.table((*columns, *counts), lines, right=counts))
    say("Show a run: nightbench results --run RUN; its logs: nightbench logs --run RUN")


def newest(stored: Sequence[Row], spooled: Sequence[Row], limit: int) -> list[dict[str, Any]]:
    """Return the newest runs of warehouse and spool, each once, as JSON takes them."""
    found = {row["run_id"]: _document(row, "loaded") for row in stored if row["loaded_at"]}
    for row in spooled:
        found.setdefault(row["run_id"], _document(row, row["state"]))
    for row in stored:
        # Planned with another spool, not loaded: this machine cannot know whether it still runs.
        found.setdefault(row["run_id"], _document(row, "planned"))
    rows = sorted(found.values(), key=lambda row: (row["started_at"] or "", row["run_id"]))
    return rows[::-1][:limit]


def spooled(spool: Spool, suite: str | None, cluster: str | None) -> list[Row]:
    """Return the spool's runs that are not loaded: running, or waiting for the warehouse."""
    return [
        row
        for run in spool.runs()
        if run.loaded() is None
        and (row := _row(run)) is not None
        and suite in (None, row["suite"])
        and cluster in (None, row["cluster"])
    ]


def _row(run: RunSpool) -> Row | None:
    document = run.run()
    if document is None:
        return None
    began, state = started_at(run), "ended, not loaded" if document.get("ended_at") else "running"
    try:
        planned: int | None = len(run.planned())
    except UserError as error:
        planned, state = None, f"damaged: {error}"
    return {
        **{name: document.get(name) for name in ("suite", "cluster", "run_kind", "requested_by")},
        "run_id": run.run_id,
        "started_at": began,
        "planned": planned,
        "state": state,
    }


def _document(row: Row, state: str) -> dict[str, Any]:
    names = ("run_id", "suite", "cluster", "run_kind", "started_at", "requested_by", *COUNTS)
    found = {name: row.get(name) for name in names}
    if isinstance(found["started_at"], datetime):
        found["started_at"] = found["started_at"].astimezone(UTC).isoformat()
    return {**found, "state": state}
