"""drill: slow a real case down on purpose, and see the alert arrive."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.cli import ab_run, common
from nightbench.cli.common import FAILED, INTERRUPTED, err, out
from nightbench.core.errors import UserError
from nightbench.experiments.paired import percent
from nightbench.report.tables import figure

if TYPE_CHECKING:
    from nightbench.experiments.drill_judge import Night
    from nightbench.experiments.drills import Drill
    from nightbench.gang.events import GangEvent
    from nightbench.spool import RunSpool

app = typer.Typer()


@app.command()
def drill(
    suite: Annotated[
        str | None,
        typer.Argument(
            metavar="SUITE",
            help="Suite of the case, by name or file; a case that only sleeps if none.",
        ),
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="SLUG", help="The case; the suite's first.")
    ] = None,
    cluster: common.ClusterOption = None,
    size: Annotated[
        str, typer.Option(metavar="PERCENT", help="Of the throughput: what the slowdown takes.")
    ] = "20%",
    nights: Annotated[int, typer.Option(min=2, max=400, help="Nights at most.")] = 14,
    before: Annotated[
        int | None,
        typer.Option(
            min=1, help="Nights before the slowdown; the suite's policy.min_history unless given."
        ),
    ] = None,
    repeats: common.RepeatsOption = None,
    channel: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Send the alert there: an Apprise URL, or apprise://…"),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with one that was ended on its way.")
    ] = None,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> None:
    """Measure a case night after night, slow the last nights down, and show the alert arrive.

    The nights are real measurements, one right after another, dated a day apart. No baseline, no
    page and no list of alerts knows of them.

    Exit codes: 0 the alert arrived, and none before; 1 it did not, or there was a false one.
    """
    from nightbench.experiments import drills

    if resume is not None:
        if suite or case:
            raise UserError("resume: found a suite or a case beside it; it knows its own")
        asked = drills.known_of(common.spool().drill(resume))["asked"]
        began = datetime.fromisoformat(drills.known_of(common.spool().drill(resume))["began"])
        name = resume
    else:
        began = datetime.now(UTC)
        name = drills.new_drill_id(began)
        if suite is None and case is not None:
            suite = ab_run.suite_of([case])
        asked = {
            "suite": ab_run.absolute(suite) if suite else None,
            "case": case,
            "cluster": ab_run.absolute(cluster) if cluster else None,
            "size": ab_run.effect_of(size, "size"),
            "nights": nights,
            "before": before,
            "repeats": repeats,
        }
    planned = _drill(name, began, asked)
    raise typer.Exit(_run(planned, asked, channel or [], outside_hours=outside_hours, json=json))


def _drill(name: str, began: datetime, asked: Mapping[str, Any]) -> Drill:
    from nightbench.experiments import drills

    chosen = _sleeping(asked) if asked["suite"] is None else _chosen(asked)
    return drills.Drill(
        drill_id=name,
        suite=chosen.suite,
        cluster=chosen.cluster,
        catalog=chosen.catalog,
        nights=asked["nights"],
        size=asked["size"],
        began=began,
        before=asked["before"] or drills.needed(chosen.suite),
    )


def _chosen(asked: Mapping[str, Any]) -> common.Chosen:
    chosen = common.choose(asked["suite"], asked["cluster"], repeats=asked["repeats"])
    case = asked["case"] or chosen.suite.cases[0].case_id
    return dataclasses.replace(chosen, suite=ab_run.only(chosen.suite, [case]))


def _sleeping(asked: Mapping[str, Any]) -> common.Chosen:
    """A suite of one case that a framework line names for drills."""
    from nightbench.core.model import Case, Protocol, Strategy, Suite

    catalog = common.catalog()
    cluster = common.cluster_of(asked["cluster"] or "local", catalog)
    line = next((each for each in catalog.frameworks.values() if each.drill_workload), None)
    if line is None or line.drill_workload is None:
        raise UserError("drill: no framework line names a `drill_workload`; give a suite")
    case = Case(line.drill_workload, line.line, Strategy.SINGLE, batch_size_per_device=2)
    protocol = Protocol(warmup_steps=3, measured_steps=30, repeats=asked["repeats"] or 5)
    suite = Suite(case.workload, "nightbench", cluster.name, (case,), protocol)
    return common.Chosen(suite, cluster, catalog, {})


def _run(
    drill: Drill,
    asked: Mapping[str, Any],
    channels: list[str],
    *,
    outside_hours: bool,
    json: bool,
) -> int:
    """Measure and judge night after night until the alert arrives; the exit code."""
    from nightbench.experiments import drill_judge, drill_measure, drills
    from nightbench.night import night_plan

    if not outside_hours:
        night_plan.open_now(drill.cluster, datetime.now(UTC))
    common.home().make()
    spool = common.spool()
    folder = drills.begin(spool, drill, asked)
    if folder.is_steered():
        raise UserError(f"{drill.drill_id} is measured right now by another process")
    targets, shipment = common.reach(drill.cluster), common.shipment(drill.cluster)
    console = err if json else out

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    def hear(event: GangEvent) -> None:
        if event.kind in ("ship", "provision", "lost", "back"):
            say(f"  {event.node}: {event.message}" if event.node else f"  {event.message}")

    say(
        f"{drill.drill_id}: {drill.case_id} on {drill.cluster.name}, up to {drill.nights} nights; "
        f"from night {drill.first_slow} on each step sleeps, so that {percent(drill.size)} of the "
        "throughput is lost"
    )
    judged: list[Night] = []
    try:
        with folder.steered():
            for number in range(1, drill.nights + 1):
                drill_measure.measure_night(drill, spool, number, targets, shipment, hear, _nothing)
                judged = drill_judge.judged(drill, spool, number)
                say(_line(drill, judged[-1]))
                if drill_judge.arrived(drill, judged) is not None:
                    break
    except KeyboardInterrupt:
        err.print(
            f"{drill.drill_id} was interrupted; its processes on the nodes have been ended. Go "
            f"on: nightbench drill --resume {drill.drill_id}",
            markup=False,
            soft_wrap=True,
        )
        return INTERRUPTED
    return _finish(drill, folder, judged, channels, json=json)


def _nothing() -> None:
    """Nothing is redrawn between the nights' lines."""


def _line(drill: Drill, night: Night) -> str:
    verdict = night.verdict
    slowed = f", {1000 * night.sleep_s:.3g} ms of sleep in each step" if night.sleep_s else ""
    alert = " -> ALERT" if night.opened else ""
    return (
        f"night {night.number} of {drill.nights}, {drill.at(night.number):%Y-%m-%d}{slowed}: "
        f"{figure(night.measurement.throughput)} {night.measurement.unit}/s, {verdict.kind}: "
        f"{verdict.sentence}{alert}"
    )


def _finish(
    drill: Drill, folder: RunSpool, judged: list[Night], channels: list[str], *, json: bool
) -> int:
    """Show the alert, send it, say after how many nights it came; the exit code."""
    from nightbench.experiments import drill_judge

    console = err if json else out
    document = drill_judge.end(common.spool(), drill, judged)
    found = drill_judge.arrived(drill, judged)
    lines = []
    if found is not None:
        said = drill_judge.alert_of(drill, common.spool(), found)
        lines += ["", said.title, "", said.body, ""]
        _send(drill, judged, found, channels)
        many = document["delay"]
        lines.append(
            f"The alert arrived on night {found.number}, the {_ordinal(many)} slowed one. It is "
            "closed with the drill: no list of alerts holds it."
        )
    else:
        slowed = max(len(judged) - drill.first_slow + 1, 0)
        lines.append(
            f"No alert arrived within {slowed} slowed nights. A larger --size shows what the "
            "detector does see so early; more nights --before let it see smaller ones."
        )
    if document["false_alarms"]:
        lines.append(f"False alarms before the slowdown, on nights {document['false_alarms']}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if json:
        common.print_json(document)
    return 0 if found is not None and not document["false_alarms"] else FAILED


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def _send(drill: Drill, judged: list[Night], found: Night, channels: list[str]) -> None:
    """Send the alert as a real one is sent; a channel that takes nothing is told."""
    from nightbench.alerts import picture, send
    from nightbench.experiments import drill_judge

    if not channels:
        return
    said = drill_judge.alert_of(drill, common.spool(), found)
    since = found.judgement.since if found.judgement else None
    points = drill_judge.points_of(drill, judged)
    plot = picture(drill.case_id, points, found.measurement.unit, since, found.verdict.baseline)

    def resolve(conn_id: str) -> str:
        # Importing Airflow costs seconds: only where a Connection is named.
        from nightbench.orchestration.connections import channel_url

        return channel_url(conn_id)

    for delivery in send(channels, said.title, said.body, resolve, [plot] if plot else []):
        told = "was told" if delivery.sent else f"took no message: {delivery.error}"
        err.print(f"{delivery.channel} {told}", markup=False, soft_wrap=True)
