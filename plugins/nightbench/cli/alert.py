"""alert: lists alerts, shows them, and changes their state."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.alerts import picture, send
from nightbench.alerts.channels import channels_of
from nightbench.cli import common
from nightbench.cli.bisect import lines_of
from nightbench.cli.common import FAILED, out, say
from nightbench.cli.nights import say_overdue
from nightbench.cli.selection import Selection
from nightbench.config.validate import parsed
from nightbench.core.errors import UserError
from nightbench.core.model import HistoryPoint
from nightbench.core.model.alerts import CauseEvidence
from nightbench.core.model.experiments import LIVE as LIVE_EXPERIMENTS
from nightbench.core.model.experiments import ExperimentKind
from nightbench.core.sentences import evidence_sentence, unplanned_sentences

if TYPE_CHECKING:
    from nightbench.warehouse import Warehouse

app = typer.Typer(help="List alerts, show them, and change their state.")


AlertArgument = Annotated[int, typer.Argument(metavar="ID", help="Number of the alert.")]
WhyOption = Annotated[str, typer.Option("--why", help="Reason, kept in the alert's history.")]
GroupOption = Annotated[
    bool, typer.Option("--group", help="Apply the change to all alerts of the same cause.")
]
MOST = 10_000
"""Largest number of alerts to list."""

Row = dict[str, Any]

LIVE = ("open", "acknowledged")
COLUMNS = ("id", "series", "state", "owner", "what", "case", "cause", "cluster", "since (UTC)")
SHOWN = 50
"""Largest number of alerts of the same cause that are listed."""


@app.command("list")
def list_alerts(
    every: Annotated[bool, typer.Option("--all", help="Include closed alerts.")] = False,
    json: common.JsonOption = False,
) -> None:
    """List alerts that are not closed, worst first, one line for each cause."""
    with common.reader() as warehouse:
        rows = warehouse.alerts.find(None if every else LIVE, limit=MOST)
        unplanned = unplanned_sentences(warehouse.alerts.read("unmeasured_alerts"))
    if not json:
        say_overdue()
    none = "No alerts." if every else "No open alerts. To list closed alerts: --all"
    if common.all_said(rows, none, json=json):
        return
    out.print(common.table(*_table_of(rows)))
    for alert, sentence in unplanned.items():
        say(f"alert {alert} stays open: {sentence}")


@app.command()
def show(alert: AlertArgument, json: common.JsonOption = False) -> None:
    """Show an alert with its cause and history, and the other alerts of the same cause."""
    with common.reader() as warehouse:
        _show(warehouse, alert, json)


@app.command()
def ack(
    alert: AlertArgument,
    why: WhyOption = "",
    group: GroupOption = False,
    json: common.JsonOption = False,
) -> None:
    """Acknowledge an alert: a user is working on it."""
    _change(alert, "acknowledge", json, why=why, group=group)


@app.command()
def resolve(
    alert: AlertArgument,
    why: WhyOption = "",
    group: GroupOption = False,
    json: common.JsonOption = False,
) -> None:
    """Mark an alert as fixed; if the drop continues, a new alert reports it."""
    _change(alert, "resolve", json, why=why, group=group)


@app.command()
def dismiss(
    alert: AlertArgument,
    reason: Annotated[
        str, typer.Option(help="Why: false_alarm, intended, wont_fix.", show_default=False)
    ],
    why: WhyOption = "",
    group: GroupOption = False,
    json: common.JsonOption = False,
) -> None:
    """Close an alert without a fix; it is reopened only if the series drops further."""
    _change(alert, "dismiss", json, why=why, group=group, reason=reason)


@app.command()
def reopen(alert: AlertArgument, why: WhyOption = "", json: common.JsonOption = False) -> None:
    """Reopen an alert; it keeps its history."""
    _change(alert, "reopen", json, why=why)


@app.command()
def snooze(
    alert: AlertArgument,
    until: Annotated[
        str, typer.Option(help="End of snooze: 12h, 3d, 2w, 2026-12-01, date and time.")
    ],
    why: WhyOption = "",
    group: GroupOption = False,
    json: common.JsonOption = False,
) -> None:
    """Send no message about an alert until a time; report it again if it is still open then."""
    _change(alert, "snooze", json, why=why, group=group, until=until)


@app.command()
def assign(
    alert: AlertArgument,
    owner: Annotated[str, typer.Option(help='New owner; "" removes it.')],
    why: WhyOption = "",
    group: GroupOption = False,
    json: common.JsonOption = False,
) -> None:
    """Set the owner of an alert."""
    _change(alert, "assign", json, why=why, group=group, owner=owner)


@app.command("test")
def try_channels(suite: common.SuiteArgument, json: common.JsonOption = False) -> None:
    """Send a test message to each channel of a suite."""
    chosen = Selection(suite).choose().suite
    channels = channels_of(chosen.alerts, chosen.routes)
    if not channels:
        raise UserError(
            f"{chosen.source}: found no channel; expected alerts: [URL, …], or routes with channels"
        )
    now = datetime.now(UTC)
    made_up = [
        HistoryPoint(now - timedelta(days=29 - night), level * (1 + 0.004 * (night % 5 - 2)))
        for night, level in enumerate([100.0] * 24 + [90.0] * 6)
    ]
    plot = picture(f"{chosen.name}-test", made_up, "samples", made_up[24].at, 100.0)
    title = f"Nightbench {chosen.name}: a test message"
    body = (
        "No alert was opened: this is a test of the channels of this suite (`nightbench alert test "
        f"{suite}`).\nA message about an alert looks like this one, with a plot of the series if "
        f"the channel accepts pictures. Owner: {chosen.owner}."
    )
    deliveries = send(channels, title, body, common.channel_url, [plot] if plot else [])
    if json:
        common.print_json([asdict(delivery) for delivery in deliveries])
    else:
        for delivery in deliveries:
            say(f"{delivery.channel}: {'sent' if delivery.sent else delivery.error}")
    if not all(delivery.sent for delivery in deliveries):
        raise typer.Exit(FAILED)


def _change(alert: int, name: str, json: bool, **given: str | bool) -> None:
    """Apply an action to an alert, or to all of its group whose state allows it."""
    from nightbench.warehouse import Triage
    from nightbench.warehouse.alert_actions import ACTIONS, apply_change

    action, group = ACTIONS[name], list[Row]()
    change = parsed(action.request, given)
    with common.reader() as warehouse:
        row = warehouse.alerts.get(alert)
        if change.group:
            group = [row, *_others_of_cause(warehouse, alert)]
    with closing(common.open_warehouse("nightbench_triage")) as connection:
        changed = apply_change(change, action, Triage(connection, getpass.getuser()), row, group)
    with common.reader() as warehouse:
        _show(warehouse, alert, json)
    if change.group and not json:
        say(f"{changed} of {len(group)} alerts of the same cause were changed")


def _show(warehouse: Warehouse, alert: int, json: bool) -> None:
    row, events = warehouse.alerts.get(alert), warehouse.alerts.read("alert_events", alert_id=alert)
    others = _others_of_cause(warehouse, alert)
    found = warehouse.experiments.find(alert_ids=[alert], kinds=[ExperimentKind.BISECT])
    # Bisects that have started, as their command prints them.
    bisects = [{**each["result"], "state": each["state"]} for each in found if each["result"]]
    if json:
        common.print_json(row | {"events": events, "same_cause": others, "bisects": bisects})
        return
    owner = f", owner {row['owner']}" if row["owner"] else ""
    unplanned = unplanned_sentences(warehouse.alerts.read("unmeasured_alerts"))
    lines = [
        f"Alert {alert}: {row['case_id']} on {row['cluster']}: {_what(row)}",
        f"{_state(row)}{owner}, opened {row['opened_at']:%Y-%m-%d %H:%M} UTC",
        row["sentence"],
        *filter(None, [unplanned.get(alert)]),
        *_runs(row),
        *_confirmation(row),
        *_cause_of(row),
        "",
        *_others_of(others),
    ]
    lines += [line for each in bisects for line in (*lines_of(each), "")]
    for event in events:
        step = event["what"]
        if step == "moved":
            step = f"{event['from_state']} -> {event['to_state']}"
        why = f": {event['why']}" if event["why"] else ""
        lines.append(f"{event['at']:%Y-%m-%d %H:%M} {event['by_whom']} {step}{why}")
    say("\n".join(lines))


def _runs(row: Row) -> list[str]:
    good, bad = row["last_good_run_id"], row["first_bad_run_id"]
    lines = [f"last good run {good}" + (f", first bad run {bad}" if bad else "")] if good else []
    return [*lines, f"opened by run {row['opened_run_id']}, latest {row['last_run_id']}"]


def _confirmation(row: Row) -> list[str]:
    state = row["confirmation_state"]
    if state is None:
        return []
    if state in LIVE_EXPERIMENTS:
        return ["the repeated measurement is still running"]
    outcome = (row["confirmation"] or "unconfirmed").replace("_", " ")
    return [f"{outcome}: {row['confirmation_sentence']}"]


# --- alerts grouped by cause ---------------------------------------------------------------


def _table_of(rows: Iterable[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the columns that are not empty, and a line for each group."""
    from nightbench.warehouse.alerts import worst_first

    lines = [_cells(group) for group in worst_first(rows)]
    kept = [k for k in range(len(COLUMNS)) if any(line[k] for line in lines)]
    return [COLUMNS[k] for k in kept], [[line[k] for k in kept] for line in lines]


def _cells(group: Sequence[Row]) -> tuple[str, ...]:
    first = group[0]
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    since = min(row["opened_at"] for row in group)
    return (
        str(first["alert_id"]),
        str(len(group)),
        _counted(_state(row) for row in group),
        _counted(row["owner"] or "" for row in group),
        _what(first) + (" at worst" if more and first["change"] is not None else ""),
        first["case_id"] + more,
        _cause_word(first),
        first["cluster"],
        f"{since:%Y-%m-%d}",
    )


def _cause_of(row: Row) -> list[str]:
    if row["cause"] is None:
        return []
    lines = [f"cause: {_words(row['cause'])}: {row['cause_sentence']}"]
    evidence = map(CauseEvidence.from_json, row["evidence"])
    return lines + [f"  - {evidence_sentence(each)}" for each in evidence]


def _others_of_cause(warehouse: Warehouse, alert_id: int) -> list[Row]:
    """Return the other alerts of an alert's group, live ones first, then the worst."""
    rows = warehouse.alerts.find(states=None, alert_id=alert_id)
    key = rows[0]["group_key"] if rows else None
    if not key:
        return []
    found = warehouse.alerts.find(states=None, group=key, limit=MOST)
    others = [row for row in found if row["alert_id"] != alert_id]
    return sorted(others, key=lambda row: (row["state"] not in LIVE, row["place"]))


def _others_of(others: Sequence[Row]) -> list[str]:
    """Return a line for each of the other alerts of one cause, up to `SHOWN`."""
    if not others:
        return []
    lines = [f"{len(others)} other series with the same cause (--group acts on all):"]
    width = max(len(str(row["alert_id"])) for row in others)
    lines += [
        f"  {row['alert_id']:>{width}}  {row['case_id']}: {_what(row)}, {_state(row)}"
        for row in others[:SHOWN]
    ]
    if len(others) > SHOWN:
        lines.append(f"  and {len(others) - SHOWN} more: --json lists all")
    return [*lines, ""]


def _what(row: Row) -> str:
    """Return `regressed by 5.1%`, or `mfu regressed by 5.1%` if the metric is not throughput."""
    change = row["change"]
    of = "" if row["metric"] in ("throughput", "training") else f"{row['metric']} "
    return of + str(row["verdict"]) + (f" by {abs(change):.1%}" if change is not None else "")


def _state(row: Row) -> str:
    """Return its state, with the reason of dismissal or the end of a snooze."""
    found = str(row["state"])
    if row["dismissed_as"]:
        return f"{found} ({row['dismissed_as'].replace('_', ' ')})"
    if row["snoozed_until"] and row["snoozed_until"] > datetime.now(UTC):
        return f"{found}, snoozed until {row['snoozed_until']:%Y-%m-%d %H:%M}"
    return found


def _counted(words: Iterable[str]) -> str:
    """Return `open`, or `38 open, 2 acknowledged` if the states differ."""
    counts = Counter(words)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {word or 'no owner'}" for word, count in counts.most_common())


def _cause_word(row: Row) -> str:
    if row["cause"] is None:
        return ""
    suspect = f": {row['cause_suspect']}" if row["cause_suspect"] else ""
    return f"{_words(row['cause'])}{suspect}"


def _words(kind: str) -> str:
    return kind.replace("_", " ")
