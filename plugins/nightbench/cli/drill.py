"""drill: slow a real case down on purpose and check that the alert arrives."""

from __future__ import annotations

import dataclasses
import getpass
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.alerts import picture
from nightbench.cli import common, experiment_common
from nightbench.cli.common import FAILED
from nightbench.cli.selection import Chosen, RepeatsOption, Selection
from nightbench.core.errors import UserError
from nightbench.core.model import Case, Protocol, Strategy, Suite
from nightbench.core.model.values import percentage
from nightbench.core.run_plan import new_run_id
from nightbench.experiments.paired_statistics import percent
from nightbench.report.tables import figure

if TYPE_CHECKING:
    from nightbench.experiments.drill import Drill, DrillNight

app = typer.Typer()


@app.command()
def drill(
    suite: Annotated[
        str | None,
        typer.Argument(
            metavar="SUITE",
            help="Suite of the case: name or file. [default: a case that only sleeps]",
        ),
    ] = None,
    case: Annotated[
        str | None, typer.Option(metavar="SLUG", help="Case. [default: the first case]")
    ] = None,
    cluster: common.ClusterOption = None,
    size: Annotated[str, typer.Option(metavar="PERCENT", help="Injected throughput drop.")] = "20%",
    nights: Annotated[int, typer.Option(min=2, max=400, help="Largest number of nights.")] = 14,
    before: Annotated[
        int | None,
        typer.Option(min=1, help="Nights before the slowdown. [default: policy.min_history]"),
    ] = None,
    repeats: RepeatsOption = None,
    channel: experiment_common.ChannelOption = None,
    resume: experiment_common.ResumeOption = None,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> None:
    """Test the alerts: measure a case for many nights, slow it down, and wait for the alert.

    The nights are measured one after another and get dates a day apart. No baseline, page or list
    contains these nights.

    Exit codes:

    - 0: the alert arrived, and no false alert before it.
    - 1: no alert arrived, or a false alert arrived.
    """
    from nightbench.experiments.experiment_spool import DRILL, resumable_request

    if resume is not None:
        if suite or case:
            raise UserError("--resume cannot be combined with a suite or a case")
        document = resumable_request(common.spool().comparison(resume), DRILL)
        request, began = document["request"], datetime.fromisoformat(document["began"])
        name = resume
    else:
        began = datetime.now(UTC)
        name = new_run_id("drill", began)
        if suite is None and case is not None:
            suite = experiment_common.suite_of([case])
        request = {
            "suite": experiment_common.absolute(suite) if suite else None,
            "case": case,
            "cluster": experiment_common.absolute(cluster) if cluster else None,
            "size": experiment_common.value_of(percentage, size, "size"),
            "nights": nights,
            "before": before,
            "repeats": repeats,
        }
    planned = _drill(name, began, request)
    judged = _measure(planned, request, outside_hours=outside_hours, json=json)
    raise typer.Exit(_finish(planned, judged, channel or [], json=json))


def _drill(name: str, began: datetime, request: Mapping[str, Any]) -> Drill:
    from nightbench.experiments.drill import Drill, nights_needed

    chosen = _sleeping(request) if request["suite"] is None else _chosen(request)
    return Drill(
        drill_id=name,
        spool=common.spool(),
        suite=chosen.suite,
        cluster=chosen.cluster,
        catalog=chosen.catalog,
        nights=request["nights"],
        size=request["size"],
        began=began,
        before=request["before"] or nights_needed(chosen.suite),
    )


def _chosen(request: Mapping[str, Any]) -> Chosen:
    from nightbench.experiments.compare import with_cases

    chosen = Selection(request["suite"], request["cluster"], repeats=request["repeats"]).choose()
    case = request["case"] or chosen.suite.cases[0].case_id
    return dataclasses.replace(chosen, suite=with_cases(chosen.suite, [case]))


def _sleeping(request: Mapping[str, Any]) -> Chosen:
    """Return a suite with one case of the test line, which sleeps."""
    catalog = common.catalog()
    cluster = common.cluster_of(request["cluster"] or "local", catalog)
    line = next((each.line for each in catalog.frameworks.values() if each.for_tests), None)
    if line is None:
        raise UserError("drill: found no framework line for tests; expected a suite")
    case = Case("sleep", line, Strategy.SINGLE, batch_size_per_device=2)
    protocol = Protocol(warmup_steps=3, measured_steps=30, repeats=request["repeats"] or 5)
    suite = Suite("sleep", "nightbench", cluster.name, (case,), protocol)
    return Chosen(suite, cluster, catalog, {})


def _measure(
    drill: Drill, request: Mapping[str, Any], *, outside_hours: bool, json: bool
) -> list[DrillNight]:
    from nightbench.experiments.drill import alert_night, judge_nights, measure_night, store_drill
    from nightbench.experiments.reporting import ComparisonReporter
    from nightbench.night import planning

    if not outside_hours:
        planning.open_now(drill.cluster, datetime.now(UTC))
    common.home().make()
    store_drill(drill, request, getpass.getuser())
    targets, shipment = common.targets(drill.cluster), common.shipment(drill.cluster)
    reporter = ComparisonReporter(experiment_common.sayer(json))
    reporter.say(
        f"{drill.drill_id}: {drill.case_id} on {drill.cluster.name}, up to {drill.nights} nights; "
        f"from night {drill.first_slow} on, each step also sleeps, so that throughput drops by "
        f"{percent(drill.size)}"
    )
    judged: list[DrillNight] = []
    try:
        with drill.folder.controlled():
            for number in range(1, drill.nights + 1):
                measure_night(
                    drill, number, targets, shipment, reporter.gang_event, reporter.refresh
                )
                judged = judge_nights(drill, number)
                reporter.say(_line(drill, judged[-1]))
                if alert_night(drill, judged) is not None:
                    break
    except KeyboardInterrupt:
        resume = f"nightbench drill --resume {drill.drill_id}"
        raise experiment_common.interrupted(drill.drill_id, resume) from None
    return judged


def _line(drill: Drill, night: DrillNight) -> str:
    verdict = night.verdict
    slowed = f", {1000 * night.sleep_s:.3g} ms of sleep in each step" if night.sleep_s else ""
    alert = " -> ALERT" if night.opened else ""
    return (
        f"night {night.number} of {drill.nights}, {drill.at(night.number):%Y-%m-%d}{slowed}: "
        f"{figure(night.measurement.throughput)} {night.measurement.unit}/s, {verdict.kind}: "
        f"{verdict.sentence}{alert}"
    )


def _finish(drill: Drill, judged: list[DrillNight], channels: list[str], *, json: bool) -> int:
    """Show the alert, send it, say after how many nights it came, and return the exit code."""
    from nightbench.experiments.drill import alert_message, alert_night, end_drill, plot_points

    document, found = end_drill(drill, judged), alert_night(drill, judged)
    lines = []
    if found is not None:
        alert = alert_message(drill, found)
        lines += ["", alert.title, "", alert.body, ""]
        if channels:
            since = found.judgement.since if found.judgement else None
            points, unit = plot_points(drill, judged), found.measurement.unit
            plot = picture(drill.case_id, points, unit, since, found.verdict.baseline)
            experiment_common.post(channels, alert.title, alert.body, [plot] if plot else [])
        lines.append(
            f"The alert arrived on night {found.number}, slowed night {document['delay']}. The "
            "alert is closed with the drill; no list of alerts shows it."
        )
    else:
        slowed = max(len(judged) - drill.first_slow + 1, 0)
        lines.append(
            f"No alert arrived within {slowed} slowed nights. Try a larger slowdown (--size), or "
            "more nights before the slowdown (--before): then smaller slowdowns are detected."
        )
    if document["false_alarms"]:
        lines.append(f"False alarms before the slowdown, on nights {document['false_alarms']}")
    say = experiment_common.sayer(json)
    for line in lines:
        say(line)
    if json:
        common.print_json(document)
    return 0 if found is not None and not document["false_alarms"] else FAILED
