"""nights: list the scheduled nights."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.text import Text

from nightbench.cli import common
from nightbench.cli.common import FAILED, out, say, warn
from nightbench.core.budget import duration
from nightbench.core.expected_nights import unchecked

app = typer.Typer()

LATEST = timedelta(hours=36)
"""Largest age of missing nights that are listed with alerts."""

_COLOURS = {"missing": "red", "late": "yellow", "met": "green", "waiting": "cyan"}


@app.command()
def nights(
    days: Annotated[int, typer.Option(min=1, help="Number of days to look back.")] = 7,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="For a monitor outside Airflow: exit with 1 if a night is missing, or if "
            "deadlines were not checked for an hour.",
        ),
    ] = False,
    json: common.JsonOption = False,
) -> None:
    """List scheduled nights, newest first, with their state: met, missing, late, paused."""
    now = datetime.now(UTC)
    with common.reader() as warehouse:
        repository = warehouse.nights
        rows = repository.nights(since=now - timedelta(days=days))
        last = repository.first("deadline_check")
    problem = unchecked(last["checked_at"] if last else None, now)
    if json:
        common.print_json(rows)
    else:
        if rows:
            _show(rows)
        elif last is not None:
            say(
                f"No night was expected in the last {days} days; "
                f"suites with a schedule: {last['suites']}."
            )
        if problem is None and last is not None:
            say(f"checked {duration((now - last['checked_at']).total_seconds())} ago")
    if problem is not None:
        warn(problem)
    common.warn_unscheduled()
    missing = [row for row in rows if row["state"] == "missing" and now - row["due_at"] <= LATEST]
    if check and (missing or problem):
        raise typer.Exit(FAILED)


def say_overdue() -> None:
    """Print a line for each night that is missing now, next to the alerts."""
    now = datetime.now(UTC)
    with common.reader() as warehouse:
        rows = warehouse.nights.nights(states=["missing"], since=now - 2 * LATEST)
    for row in rows:
        if now - row["due_at"] <= LATEST:
            at = f"{row['scheduled_at']:%Y-%m-%d %H:%M} UTC"
            say(f"missing: {row['suite']} on {row['cluster']}, run of {at}: {row['sentence']}")


def _show(rows: list[dict[str, Any]]) -> None:
    lines = (
        (
            f"{row['scheduled_at']:%Y-%m-%d %H:%M}",
            row["suite"],
            row["cluster"],
            f"{row['due_at']:%Y-%m-%d %H:%M}",
            Text(row["state"], style=_COLOURS.get(row["state"], "")),
            row["sentence"],
        )
        for row in rows
    )
    columns = ("scheduled (UTC)", "suite", "cluster", "due (UTC)", "state", "result")
    out.print(common.table(columns, lines))
