"""alert: what somebody must see, and what people make of it."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from nightbench.commands import common
from nightbench.commands.common import out
from nightbench.errors import UserError
from nightbench.hours import moment

if TYPE_CHECKING:
    from nightbench.warehouse import Reader, Triage

app = typer.Typer(help="The alerts and their life: who looked, what came of it.")

AlertArgument = Annotated[int, typer.Argument(metavar="ID", help="Number of the alert.")]
WhyOption = Annotated[str, typer.Option("--why", help="Kept in the alert's history.")]


@app.command("list")
def list_alerts(
    every: Annotated[bool, typer.Option("--all", help="Closed ones too.")] = False,
    json: common.JsonOption = False,
) -> None:
    """List the alerts that somebody still has to look at, newest first."""
    with _reader() as reader:
        rows = reader.alerts(states=None) if every else reader.alerts()
    if json:
        common.print_json([_document(row) for row in rows])
        return
    if not rows:
        out.print("No alerts." if every else "No open alerts. Closed ones: --all")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("id", "state", "owner", "what", "case", "cluster", "since (UTC)"):
        table.add_column(name, overflow="fold")
    for row in rows:
        since = f"{row['opened_at']:%Y-%m-%d}"
        cells = (row["alert_id"], _state(row), row["owner"] or "", _what(row))
        table.add_row(*(Text(str(c)) for c in (*cells, row["case_id"], row["cluster"], since)))
    out.print(table)


@app.command()
def show(alert: AlertArgument, json: common.JsonOption = False) -> None:
    """Show an alert with its history."""
    with _reader() as reader:
        _show(reader, alert, json)


@app.command()
def ack(alert: AlertArgument, why: WhyOption = "", json: common.JsonOption = False) -> None:
    """Say that somebody looks at it."""
    _change(alert, json, lambda triage: triage.move(alert, "acknowledged", why))


@app.command()
def resolve(alert: AlertArgument, why: WhyOption = "", json: common.JsonOption = False) -> None:
    """Say that it is mended; a fall that goes on is told again."""
    _change(alert, json, lambda triage: triage.move(alert, "resolved", why))


@app.command()
def dismiss(
    alert: AlertArgument,
    reason: Annotated[
        str, typer.Option("--reason", help="false_alarm, intended or wont_fix.", show_default=False)
    ],
    why: WhyOption = "",
    json: common.JsonOption = False,
) -> None:
    """Close it for good: it says no more until the series falls further."""
    given = reason.replace("-", "_")
    _change(alert, json, lambda triage: triage.move(alert, "dismissed", why, given))


@app.command()
def reopen(alert: AlertArgument, why: WhyOption = "", json: common.JsonOption = False) -> None:
    """Open it again, with its history."""
    _change(alert, json, lambda triage: triage.move(alert, "open", why))


@app.command()
def snooze(
    alert: AlertArgument,
    until: Annotated[
        str, typer.Option("--until", help="12h, 3d, 2w, or a date as 2026-12-01 or with its time.")
    ],
    why: WhyOption = "",
    json: common.JsonOption = False,
) -> None:
    """Send no message before a time; then it is told again if it still lives."""
    wakes = moment(until, datetime.now(UTC))
    _change(alert, json, lambda triage: triage.snooze(alert, wakes, why))


@app.command()
def assign(
    alert: AlertArgument,
    owner: Annotated[str, typer.Option("--owner", help='Whose it is; "": nobody\'s.')],
    why: WhyOption = "",
    json: common.JsonOption = False,
) -> None:
    """Say whose it is."""
    _change(alert, json, lambda triage: triage.assign(alert, owner, why))


@app.command()
def confirm(
    alert: AlertArgument,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> None:
    """Measure its regression again now, as a night does before it is told of.

    The last good build and the night's take turns on the same nodes, and once on others. Exit
    codes: 0 confirmed or not confirmed; 3 inconclusive; 1 nothing could be measured.
    """
    from nightbench.commands.alert_confirm import confirm_alert

    raise typer.Exit(confirm_alert(alert, outside_hours=outside_hours, json=json))


@contextmanager
def _reader() -> Iterator[Reader]:
    from nightbench.warehouse import Reader

    with closing(common.open_warehouse("nightbench_reader")) as connection:
        yield Reader(connection)


def _change(alert: int, json: bool, act: Callable[[Triage], str]) -> None:
    from nightbench.warehouse import Triage

    with closing(common.open_warehouse("nightbench_triage")) as connection:
        act(Triage(connection, getpass.getuser()))
    with _reader() as reader:
        _show(reader, alert, json)


def _show(reader: Reader, alert: int, json: bool) -> None:
    rows = reader.alerts(states=None, alert_id=alert)
    if not rows:
        raise UserError(f"There is no alert {alert}. `nightbench alert list --all` lists them.")
    row, events = rows[0], reader.alert_events(alert)
    if json:
        common.print_json(_document(row) | {"events": [_document(event) for event in events]})
        return
    owner = f", owner {row['owner']}" if row["owner"] else ""
    lines = [
        f"Alert {alert}: {row['case_id']} on {row['cluster']}: {_what(row)}",
        f"{_state(row)}{owner}, opened {row['opened_at']:%Y-%m-%d %H:%M} UTC",
        row["sentence"],
        f"first run {row['opened_run_id']}, latest {row['last_run_id']}",
        *_confirmation(row),
        "",
    ]
    lines += _bisects(alert)
    for event in events:
        step = event["what"]
        if step == "moved":
            step = f"{event['from_state']} -> {event['to_state']}"
        why = f": {event['why']}" if event["why"] else ""
        lines.append(f"{event['at']:%Y-%m-%d %H:%M} {event['by_whom']} {step}{why}")
    out.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _confirmation(row: dict[str, Any]) -> list[str]:
    """What measuring it again said, or that it goes on."""
    state = row["confirmation_state"]
    if state is None:
        return []
    if state in ("wanted", "running"):
        return ["measured again: not ended yet"]
    outcome = (row["confirmation"] or "unconfirmed").replace("_", " ")
    return [f"{outcome}: {row['confirmation_sentence']}"]


def _bisects(alert: int) -> list[str]:
    """What the searches for the version that is to blame have found, newest first."""
    from nightbench.commands.bisect import lines_of
    from nightbench.warehouse.bisects import Bisects

    with closing(common.open_warehouse("nightbench_reader")) as connection:
        found = Bisects(connection).find(alert_id=alert)
    return [line for row in found for line in (*lines_of(row), "")]


def _what(row: dict[str, Any]) -> str:
    change = row["change"]
    return str(row["verdict"]) + (f" by {abs(change):.1%}" if change is not None else "")


def _state(row: dict[str, Any]) -> str:
    state = str(row["state"])
    if row["dismissed_as"]:
        return f"{state} ({row['dismissed_as'].replace('_', ' ')})"
    if row["snoozed_until"] and row["snoozed_until"] > datetime.now(UTC):
        return f"{state}, snoozed until {row['snoozed_until']:%Y-%m-%d %H:%M}"
    return state


def _document(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in row.items()}
