"""nights: the scheduled nights."""

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
"""Age up to which missing nights are listed beside alerts."""

_COLOURS = {"missing": "red", "late": "yellow", "met": "green", "waiting": "cyan"}


@app.command()
def nights(
    days: Annotated[int, typer.Option(min=1, help="How many days back.")] = 7,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit 1 where a night is missing, or nobody has checked deadlines for an hour: "
            "for a monitor of your own, outside Airflow.",
        ),
    ] = False,
    json: common.JsonOption = False,
) -> None:
    """List the scheduled nights, newest first: met, missing, late, paused."""
    now = datetime.now(UTC)
    with common.reader() as warehouse:
        repository = warehouse.nights
        rows = repository.nights(since=now - timedelta(days=days))
        last = repository.first("deadline_check")
    problem = unchecked(last["checked_at"] if last else None, now)
    if json:
        common.print_json(rows)
    else:
        _show(rows)
        if problem is None and last is not None:
            say(f"checked {duration((now - last['checked_at']).total_seconds())} ago")
    if problem is not None:
        warn(problem)
    missing = [row for row in rows if row["state"] == "missing" and now - row["due_at"] <= LATEST]
    if check and (missing or problem):
        raise typer.Exit(FAILED)


def say_overdue() -> None:
    """Print a line for each night that is missing now, beside the alerts."""
    now = datetime.now(UTC)
    with common.reader() as warehouse:
        rows = warehouse.nights.nights(states=["missing"], since=now - 2 * LATEST)
    for row in rows:
        if now - row["due_at"] <= LATEST:
            at = f"{row['scheduled_at']:%Y-%m-%d %H:%M} UTC"
            say(f"missing: {row['suite']} on {row['cluster']}, run of {at}: {row['sentence']}")


def _show(rows: list[dict[str, Any]]) -> None:
    if not rows:
        say("No night was promised: no suite has a schedule, or nobody has checked yet.")
        return
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
    columns = ("scheduled (UTC)", "suite", "cluster", "due (UTC)", "state", "what came of it")
    out.print(common.table(columns, lines))
