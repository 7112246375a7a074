"""bisect: the first version of a framework that made a case slower."""

from __future__ import annotations

import asyncio
import dataclasses
import getpass
import traceback
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from nightbench.cli import ab_run, common
from nightbench.cli.ab_view import View
from nightbench.cli.common import INTERRUPTED, err, out
from nightbench.core.errors import UserError
from nightbench.experiments.paired import LEAST_ROUNDS, percent

if TYPE_CHECKING:
    from nightbench.experiments.bisect import Ground
    from nightbench.experiments.bisect_store import Asked, Document
    from nightbench.experiments.bisection import State, Trial
    from nightbench.experiments.compare import Listener
    from nightbench.experiments.comparisons import ComparisonPlan
    from nightbench.spool import RunSpool

BAD_USAGE, NOT_FOUND = 2, 3

app = typer.Typer()


@app.command()
def bisect(
    alert: Annotated[
        int | None,
        typer.Argument(metavar="ALERT", help="An alert whose framework version changed."),
    ] = None,
    good: Annotated[str | None, typer.Option(metavar="VERSION", help="A version before.")] = None,
    bad: Annotated[str | None, typer.Option(metavar="VERSION", help="A slower version.")] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="SLUG", help="The case that shows it.")
    ] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="Suite of the case, by name or file.")
    ] = None,
    cluster: common.ClusterOption = None,
    versions: Annotated[
        str,
        typer.Option(
            metavar="A,B,C", help="Only these versions between; all that a node offers otherwise."
        ),
    ] = "",
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="For measuring, over all calls: 90m, 4h.")
    ] = "4h",
    tests: Annotated[int, typer.Option(min=1, help="At most so many versions are tested.")] = 20,
    rounds: Annotated[
        int, typer.Option(min=LEAST_ROUNDS, max=1000, help="Rounds of each test.")
    ] = 5,
    min_effect: Annotated[
        str, typer.Option(metavar="PERCENT", help="The smallest fall that is looked for.")
    ] = "1%",
    seed: Annotated[int, typer.Option(help="Says which build begins the first round.")] = 1,
    resume: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with one that was ended on its way.")
    ] = None,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> None:
    """Find the first version of a framework line that is slower.

    Each version is held against the good one in rounds of two launches, as `nightbench ab` does.

    Exit codes: 0 found; 2 bad usage, or nothing could be measured; 3 not found: only a range, the
    budget is used up, or the bad version is not slower.
    """
    try:
        budget_s = _seconds(budget)
        if resume is not None:
            if alert is not None or good or bad or case:
                raise UserError("resume: found an alert or versions beside it; it knows its own")
            name, asked = _taken_up(resume, budget_s, tests, outside_hours)
        else:
            name, asked = _asked(
                _Wanted(alert, good, bad, case, suite, cluster, tuple(common.words(versions))),
                budget_s=budget_s,
                most_tests=tests,
                rounds=rounds,
                min_effect=ab_run.effect_of(min_effect),
                seed=seed,
                outside_hours=outside_hours,
            )
        code = _measure(name, asked, json=json)
    except UserError as error:
        err.print(f"error: {error}", markup=False, soft_wrap=True)
        code = BAD_USAGE
    except Exception:  # Any fault of ours: its code must not be taken for an answer.
        traceback.print_exc()
        code = BAD_USAGE
    raise typer.Exit(code)


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """What the command line says of what is looked for."""

    alert: int | None
    good: str | None
    bad: str | None
    case: str | None
    suite: str | None
    cluster: str | None
    versions: tuple[str, ...]


def _seconds(text: str) -> float:
    from nightbench.config import values

    try:
        return values.positive_duration(text)
    except ValueError as error:
        raise UserError(f"budget: {error}") from None


def _taken_up(name: str, budget_s: float, tests: int, outside_hours: bool) -> tuple[str, Asked]:
    from nightbench.experiments import bisect_store

    folder = common.spool().bisect(name)
    asked = bisect_store.known_of(folder)[1]
    if folder.is_steered():
        raise UserError(f"{name} is measured right now by another process")
    changed = dataclasses.replace(
        asked, budget_s=budget_s, most_tests=tests, outside_hours=outside_hours
    )
    return name, changed


def _asked(wanted: _Wanted, **rest: Any) -> tuple[str, Asked]:
    """Look at the alert, the nodes and their sources: what is to be looked for among what.

    Raises:
        UserError: something is missing or wrong.
    """
    from nightbench.experiments import bisect as bisecting
    from nightbench.experiments import bisect_store

    if wanted.alert is not None:
        wanted = _of_alert(wanted)
    if not (wanted.case and wanted.good and wanted.bad):
        raise UserError("found too little; expected ALERT, or --good, --bad and --case")
    # What makes no sense is said before anything is looked at.
    bisect_store.between(wanted.versions, wanted.good, wanted.bad)
    name = ab_run.suite_of([wanted.case]) if wanted.suite is None else wanted.suite
    suite = ab_run.absolute(name)
    cluster = ab_run.absolute(wanted.cluster) if wanted.cluster else None
    chosen = _chosen(suite, cluster, wanted.case)
    found = asyncio.run(
        bisecting.candidates(
            _ground(chosen), wanted.good, wanted.bad, wanted.versions, _states(chosen.cluster.name)
        )
    )
    for node, reason in found.left_out.items():
        err.print(f"{node} takes no part: {reason}", markup=False, soft_wrap=True)
    for problem in found.problems:
        err.print(f"no answer from {problem}", markup=False, soft_wrap=True)
    asked = bisect_store.Asked(
        case_id=wanted.case,
        suite=suite,
        cluster=cluster,
        line=chosen.suite.cases[0].framework,
        versions=found.versions,
        alert_id=wanted.alert,
        left_out=dict(found.left_out),
        **rest,
    )
    return bisect_store.new_bisect_id(datetime.now(UTC)), asked


def _of_alert(wanted: _Wanted) -> _Wanted:
    """Fill in what the command line leaves open, from an alert and the nights before it."""
    from nightbench.experiments import bisect_store
    from nightbench.warehouse import Reader
    from nightbench.warehouse.experiments import BisectRepository

    assert wanted.alert is not None
    with closing(common.open_warehouse("nightbench_reader")) as connection:
        reader, repository = Reader(connection), BisectRepository(connection)
        found = bisect_store.of_alert(reader, repository, wanted.alert, wanted.good, wanted.bad)
    return dataclasses.replace(
        wanted,
        good=found.good,
        bad=found.bad,
        case=wanted.case or found.case_id,
        suite=wanted.suite or found.suite,
        cluster=wanted.cluster or found.cluster,
    )


def _chosen(suite: str, cluster: str | None, case: str) -> common.Chosen:
    """The suite with the one case, its cluster and catalog."""
    chosen = common.choose(suite, cluster)
    return dataclasses.replace(chosen, suite=ab_run.only(chosen.suite, [case]))


def _ground(chosen: common.Chosen, outside_hours: bool = True) -> Ground:
    from nightbench.experiments import bisect as bisecting
    from nightbench.night import night_plan

    cluster = chosen.cluster
    span = None if outside_hours else night_plan.open_now(cluster, datetime.now(UTC))
    return bisecting.Ground(
        suite=chosen.suite,
        cluster=cluster,
        catalog=chosen.catalog,
        targets=common.reach(cluster),
        shipment=common.shipment(cluster),
        past=common.past(cluster.name) if span else {},
        end=span.end if span else None,
    )


def _states(cluster: str) -> Mapping[str, Any]:
    from nightbench.warehouse.connection import WarehouseUnavailable
    from nightbench.warehouse.nodes import NodeRepository

    try:
        with closing(common.open_warehouse()) as connection:
            return NodeRepository(connection).states(cluster)
    except WarehouseUnavailable:
        return {}  # Nobody knows of quarantines then.


def _measure(name: str, asked: Asked, *, json: bool) -> int:
    """Measure what is missing, show the answer; the exit code."""
    from nightbench.experiments import bisect as bisecting
    from nightbench.experiments import bisect_store
    from nightbench.gang import direct

    chosen = _chosen(asked.suite, asked.cluster, asked.case_id)
    common.home().make()
    spool = common.spool()
    folder = bisect_store.begin(spool, name, asked, getpass.getuser())
    ground, cluster = _ground(chosen, asked.outside_hours), chosen.cluster
    shown = _Shown(err if json else out)
    shown.say(
        f"{name}: {asked.line} {asked.versions[0]} (good) to {asked.versions[-1]} (bad), "
        f"{len(asked.versions) - 2} versions between, by {asked.case_id} on {cluster.name}"
    )
    work = bisecting.measure_bisect(folder, ground, spool, shown, store)
    try:
        with folder.steered():
            document = asyncio.run(direct.until_done(work, shown.refresh))
    except KeyboardInterrupt:
        err.print(
            f"{name} was interrupted; its processes on the nodes have been ended. Go on: "
            f"nightbench bisect --resume {name}",
            markup=False,
            soft_wrap=True,
        )
        return INTERRUPTED
    if json:
        common.print_json(document)
    else:
        show(out, document)
    return 0 if document["outcome"] == "found" else NOT_FOUND


def store(document: Document) -> None:
    """Keep a copy in the warehouse; where that does not take it the spool has all of it."""
    from nightbench.experiments import bisect_store
    from nightbench.warehouse.connection import WarehouseRefused, WarehouseUnavailable
    from nightbench.warehouse.experiments import BisectRepository

    try:
        with closing(common.open_warehouse()) as connection:
            bisect_store.store(BisectRepository(connection), document)
    except WarehouseUnavailable:
        pass  # Stored by whoever goes on with it, or shows it by --resume.
    except WarehouseRefused as error:
        # Nothing that was measured is lost by it, and a failed test says more than this does.
        err.print(f"waits in the spool: {error}", markup=False, soft_wrap=True)


class _Shown:
    """Tells how a bisect goes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._view: View | None = None

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begins(self, number: int, test: Trial, plan: ComparisonPlan, folder: RunSpool) -> Listener:
        self.say(f"test {number} ({test.kind}): {test.version} beside {test.against}")
        self._view = View(self._console, plan, folder)
        self._view.headline()
        return self._view.listener()

    def ended(self, document: Document, state: State) -> None:
        self._view = None
        self.say(
            f"test {document['number']}: {document['version']} is {document['result']}: "
            f"{document['why']}"
        )
        self.say(state.sentence)

    def refresh(self) -> None:
        if self._view is not None:
            self._view.refresh()


def show(console: Console, document: Mapping[str, Any]) -> None:
    """Print the tests of a bisect and its answer."""
    table = Table(box=None, pad_edge=False)
    for name in ("test", "version", "beside", "result", "ratio", "95 % interval", "rounds"):
        table.add_column(name, overflow="fold")
    for step in document["steps"]:
        sure = step["low"] is not None
        table.add_row(
            f"{step['number']} {step['kind']}",
            step["version"],
            step["against"],
            step["result"] or step["status"],
            f"{step['ratio']:.4f}" if step["ratio"] is not None else "",
            f"{step['low']:.4f} to {step['high']:.4f}" if sure else "",
            str(step["rounds"]),
        )
    console.print(table)
    for line in lines_of(document):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def lines_of(document: Mapping[str, Any]) -> list[str]:
    """The answer of a bisect in lines, for the command and for an alert."""
    ratio, spent = document["ratio"], document["spent_s"] / 60
    lines = [f"{document['bisect_id']}: {document['sentence']}"]
    if ratio is not None:
        lines.append(
            f"{document['line']} {document['bad']} does {percent(abs(1 - ratio))} "
            f"{'less' if ratio < 1 else 'more'} than {document['good']} on {document['case_id']}"
        )
    lines += document["notes"]
    steps = document["steps"]
    count = steps if isinstance(steps, int) else len(steps)
    lines.append(f"{count} tests, {spent:.1f} min; state {document['state']}")
    if document["state"] == "stopped":
        lines.append(f"Go on: nightbench bisect --resume {document['bisect_id']}")
    return lines
