"""grade: how good the detector is, on synthetic series, or by users' labels of alerts.

A grade has power, false alarms and delay on injected slowdowns; --policy replays past nights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError
from rich.table import Table

from nightbench.cli import common
from nightbench.cli.common import out, say, warn
from nightbench.config import find_clusters, find_suites, locations
from nightbench.config.suites import readable_suites
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model import RegressionPolicy

if TYPE_CHECKING:
    from nightbench.alerts.backtest import Backtest, PastSeries
    from nightbench.alerts.replay import RaisedAlert, Score
    from nightbench.warehouse import Warehouse

app = typer.Typer()

Row = Mapping[str, Any]

KEYS = ("min_change", "min_history", "max_spread")
"""Keys of a policy that decide which alerts are opened."""

CURRENT = "current"
"""Value of --policy for "no proposed policy"."""


@app.command()
def grade(
    suite: Annotated[
        str | None, typer.Argument(help="Name of a suite. [default: all]", show_default=False)
    ] = None,
    cluster: common.OnlyClusterOption = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Replay history with the suites' policies and with this policy: min_change=2%,… "
            f"Keys: {', '.join(KEYS)}. `{CURRENT}`: only the suites' policies.",
        ),
    ] = None,
    series: Annotated[
        list[str] | None,
        typer.Option(help="With --policy: a case, or a pattern with *. [default: all] Repeatable."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="With --policy: first night to replay, such as 2026-03-31.")
    ] = None,
    json: common.JsonOption = False,
) -> None:
    """Show how well the detector works: detected share of slowdowns, false alarms, delay.

    Once a week, a night tests the detector on copies of the suite's own series: some have an
    injected slowdown of known size, some have no change. A grade covers the 90 days before its
    night. With --policy, the command shows which alerts on drops each policy would have raised.
    Precision and recall count the alerts that people labelled (acknowledged, resolved, dismissed).
    """
    if policy is not None:
        _backtest(policy, series, suite, cluster, since, json=json)
        return
    for option, value in (("--series", series), ("--since", since)):
        if value:
            raise UserError(f"{option} requires --policy")
    with common.reader() as warehouse:
        rows = warehouse.grades.latest(suite, cluster)
        if not rows:
            _refuse_unknown(warehouse, suite, cluster)
    said = f" of suite {suite}" if suite else ""
    none = f"No grade{said} yet: the detector is graded from the 21st night of a series on."
    if common.all_said(rows, none, json=json):
        return
    for (name, where, run_id), group in groupby(
        rows, key=lambda row: (row["suite"], row["cluster"], row["run_id"])
    ):
        found = list(group)
        out.print(_table(f"{name} on {where}, up to {run_id}", found))
        for row in found:
            if row["below"]:
                say(row["below"])


def _refuse_unknown(warehouse: Warehouse, suite: str | None, cluster: str | None) -> None:
    """Refuse a name that no file and no run has."""
    dags = locations.dags_folder()
    for what, name, files in (
        ("suite", suite, find_suites(dags)),
        ("cluster", cluster, find_clusters(dags)),
    ):
        if name is None or name in files:
            continue
        given: dict[str, Any] = {what: name}
        if not warehouse.runs.find(**given, limit=1, imported=True):
            raise UserError(
                f"{what}: {one_of(name, files)}; looked in {dags / what}s and among the runs of "
                "the warehouse"
            )


def _table(title: str, rows: Sequence[Row]) -> Table:
    numbers = ("detected", "of", "power", "95 %", "median delay", "expected")
    lines = map(cells, sorted(rows, key=_order))
    return common.table(("injected", *numbers), lines, right=numbers, title=title)


def cells(row: Row) -> tuple[str, ...]:
    """Return a grade's cells: injected, detected, of how many, rate, interval, delay, limit."""
    from nightbench.detection.grading import FALSE_ALARMS

    detects, rate, limit = row["measure"] != FALSE_ALARMS, row["rate"], row["limit_value"]
    unit = "{:.0%}" if detects else "{:.1f} in 1,000"
    bound = "{:.0%}" if detects else "{:.1f}"
    delay = row["median_delay"]
    known = rate is not None
    return (
        f"{row['measure']} slower" if detects else "nothing (false alarms)",
        str(row["hits"]),
        f"{row['trials']:,}" + ("" if detects else " nights"),
        unit.format(rate) if known else "-",
        f"{bound.format(row['low'])} to {bound.format(row['high'])}" if known else "-",
        "-" if delay is None else f"{delay:g} night{'' if delay == 1 else 's'}",
        "-" if limit is None else f"{'at least' if detects else 'at most'} {bound.format(limit)}",
    )


def _order(row: Row) -> tuple[int, str]:
    from nightbench.detection.synthetic_series import SLOWDOWNS

    names = [sizes.name for sizes in SLOWDOWNS]
    measure = str(row["measure"])
    return (names.index(measure) if measure in names else len(names), measure)


_SHOWN = 30


def _backtest(
    policy: str,
    series: list[str] | None,
    suite: str | None,
    cluster: str | None,
    since: str | None,
    *,
    json: bool,
) -> None:
    from nightbench.alerts.backtest import backtest as replayed
    from nightbench.alerts.backtest import labels_of, pasts_of

    proposed = {} if policy == CURRENT else policy_changes(policy)
    first = common.instant("--since", since) if since else None
    with closing(common.open_warehouse("nightbench_reader")) as connection:
        pasts = pasts_of(connection, tuple(series or ()), suite, cluster)
        labelled = labels_of(connection)
    policies, notes = _policies(pasts)
    with common.progress_bar() as progress:
        task = progress.add_task("replaying", total=None)

        def show(done: int, of: int, case: str) -> None:
            progress.update(task, completed=done, total=of, description=case)

        found = replayed(pasts, labelled, policies.__getitem__, proposed, first, progress=show)
    if json:
        common.print_json(document(found, policies, proposed))
        return
    for note in notes:
        warn(note)
    _show(found, policies, proposed, first)


def policy_changes(text: str) -> dict[str, Any]:
    """Read `min_change=2%,min_history=14`.

    Raises: UserError: a key decides no alert, or a suite's file does not accept its value.
    """
    given: dict[str, Any] = {}
    for part in common.words(text):
        key, equals, value = (word.strip() for word in part.partition("="))
        if key not in KEYS or not equals or key in given:
            raise UserError(
                f'--policy: found "{part}", expected KEY=VALUE with each of {", ".join(KEYS)} at '
                "most once"
            )
        given[key] = int(value) if value.isdigit() and key == "min_history" else value
    try:
        file = RegressionPolicy.model_validate(given, context={})
    except ValidationError as error:
        first = error.errors()[0]
        key, said = str(first["loc"][0]), first["msg"].removeprefix("Value error, ")
        found = "" if said.startswith("found") else f'found "{given[key]}"; '
        raise UserError(f"--policy: {key}: {found}{said}") from None
    return {key: getattr(file, key) for key in given}


def _policies(pasts: Sequence[PastSeries]) -> tuple[dict[str, RegressionPolicy], list[str]]:
    names = sorted({past.suite for past in pasts})
    files = {name: x for name, x in find_suites(locations.dags_folder()).items() if name in names}
    suites = readable_suites(files, common.catalog())
    policies, unknown = {}, []
    for name in names:
        if name in suites:
            # Histories contain the throughput, whichever metric the suite judges.
            policies[name] = suites[name].policy.model_copy(update={"metric": "throughput"})
        else:
            policies[name] = RegressionPolicy()
            unknown.append(name)
    said = f"No readable suite file of {', '.join(unknown)}: their series use the default policy."
    return policies, [said] if unknown else []


# --- output -----------------------------------------------------------------------------


def _show(
    found: Backtest,
    policies: Mapping[str, RegressionPolicy],
    proposed: Mapping[str, Any],
    since: datetime | None,
) -> None:
    from nightbench.alerts.replay import only_in

    span = f" since {since:%Y-%m-%d}" if since else ""
    say(f"{found.nights:,} nights of {found.series} series replayed{span}.")
    sides = [("current", found.current)]
    if found.proposed:
        sides.append((f"proposed: {policy_words(proposed)}", found.proposed))
    names = [name for name, _ in sides]
    rows = ((title, *(cell(side) for _, side in sides)) for title, cell in _ROWS.items())
    out.print(common.table(("alerts on drops", *names), rows, right=names))
    current = {policy_words(_plain(policy)) for policy in policies.values()}
    say(f"Current: {'; '.join(sorted(current))}.")
    if not found.labelled:
        say(
            "No alert of these series has a label, so precision and recall are unknown. "
            "`nightbench alert ack`, `resolve` and `dismiss` label alerts."
        )
    if found.proposed is None:
        _list("Raised", found.current.raised)
    else:
        _list("Only with the current policy", only_in(found.current.raised, found.proposed.raised))
        _list("Only with the proposed policy", only_in(found.proposed.raised, found.current.raised))
    for name, side in sides:
        for known in side.missed:
            where = f"{known.opened_at:%Y-%m-%d} {known.case_id} on {known.cluster}"
            say(f"missed, {name}: alert {known.alert_id}, {where}")


_ROWS: Mapping[str, Callable[[Score], str]] = {
    "raised": lambda side: str(len(side.raised)),
    "  labelled as right": lambda side: str(side.right),
    "  false": lambda side: str(side.wrong),
    "  without a label": lambda side: str(side.unlabelled),
    "labelled right, not raised": lambda side: str(len(side.missed)),
    "labelled false, not raised": lambda side: str(len(side.silenced)),
    "precision": lambda side: _share(side.precision, side.precision_interval),
    "  if alerts without a label count as false": lambda side: _share(side.worst_precision),
    "recall": lambda side: _share(side.recall, side.recall_interval),
}


def _share(share: float | None, interval: tuple[float, float] | None = None) -> str:
    if share is None:
        return "-"
    if interval is None:
        return f"{share:.0%}"
    return f"{share:.0%} ({interval[0]:.0%} to {interval[1]:.0%})"


def _list(title: str, alerts: Sequence[RaisedAlert]) -> None:
    if alerts:
        say(f"{title}:")
    for alert in alerts[:_SHOWN]:
        change = "" if alert.change is None else f" {alert.change:+.1%}"
        since = f", down since {alert.since:%Y-%m-%d}" if alert.since else ""
        say(f"  {alert.at:%Y-%m-%d} {alert.case_id} on {alert.cluster}{change}{since}")
    if len(alerts) > _SHOWN:
        say(f"  and {len(alerts) - _SHOWN} more: --json lists them")


def policy_words(policy: Mapping[str, Any]) -> str:
    """A policy as `--policy` accepts it."""
    return ",".join(
        f"{key}={value}" if key == "min_history" or value == "auto" else f"{key}={value * 100:g}%"
        for key, value in policy.items()
    )


def _plain(policy: RegressionPolicy) -> dict[str, Any]:
    return {key: getattr(policy, key) for key in KEYS}


def document(
    found: Backtest, policies: Mapping[str, RegressionPolicy], proposed: Mapping[str, Any]
) -> dict[str, Any]:
    """A backtest as JSON."""
    return {
        "series": found.series,
        "nights": found.nights,
        "labelled": len(found.labelled),
        "policies": {name: _plain(policy) for name, policy in policies.items()},
        "current": _json_of(found.current),
        "proposed": _json_of(found.proposed) | {"policy": dict(proposed)}
        if found.proposed
        else None,
    }


def _json_of(side: Score) -> dict[str, Any]:
    return {
        "raised": [
            dataclasses.asdict(alert) | {"label": side.labels.get(place)}
            for place, alert in enumerate(side.raised)
        ],
        "right": side.right,
        "false": side.wrong,
        "unlabelled": side.unlabelled,
        "missed": side.missed,
        "silenced": side.silenced,
        "precision": side.precision,
        "precision_interval": side.precision_interval if side.labels else None,
        "worst_precision": side.worst_precision,
        "recall": side.recall,
        "recall_interval": side.recall_interval if side.recall is not None else None,
    }
