"""bisect: the first version of a framework that made a case slower."""

from __future__ import annotations

import asyncio
import dataclasses
import getpass
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.cli import common, experiment_common
from nightbench.cli.common import out, say, warn
from nightbench.cli.selection import Selection
from nightbench.core.errors import UserError
from nightbench.core.run_plan import new_run_id
from nightbench.core.sentences import sentences
from nightbench.experiments.paired_statistics import LEAST_ROUNDS, percent

if TYPE_CHECKING:
    from nightbench.experiments.bisect_request import BisectGoal, BisectRequest
    from nightbench.experiments.engine import ExperimentContext

NOT_FOUND = 3

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
    seed: experiment_common.SeedOption = 1,
    resume: experiment_common.ResumeOption = None,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> None:
    """Find the first version of a framework line that is slower.

    Each version is compared with the good one in rounds of two launches, as `nightbench ab` does.

    Exit codes: 0 found; 2 bad usage, or nothing could be measured; 3 not found: only a range, the
    budget is used up, or the bad version is not slower.
    """
    from nightbench.experiments.bisect_request import BisectGoal

    def work() -> int:
        limits = {
            "budget_s": experiment_common.seconds(budget, "budget"),
            "most_tests": tests,
            "outside_hours": outside_hours,
        }
        if resume is not None:
            if alert is not None or good or bad or case:
                raise UserError("resume: found an alert or versions beside it; it knows its own")
            name, (request, context) = resume, _resume(resume, limits)
        else:
            limits |= {
                "rounds": rounds,
                "min_effect": experiment_common.fraction(min_effect, "--min-effect"),
                "seed": seed,
            }
            named = tuple(common.words(versions))
            goal = BisectGoal(alert, good or "", bad or "", case or "", suite or "", cluster, named)
            name = new_run_id("bisect", datetime.now(UTC))
            request, context = _request(goal, limits)
        document = _measure(name, request, context, json=json)
        if json:
            common.print_json(document)
        else:
            show(document)
        return 0 if document["outcome"] == "found" else NOT_FOUND

    raise typer.Exit(experiment_common.exit_code(work))


def _resume(name: str, limits: Mapping[str, Any]) -> tuple[BisectRequest, ExperimentContext]:
    from nightbench.experiments.bisect_request import request_of
    from nightbench.experiments.experiment_spool import BISECT, resumable_request

    folder = common.spool().bisect(name)
    resumable_request(folder, BISECT)
    request = dataclasses.replace(request_of(folder), **limits)
    return request, _context(request.suite, request.cluster, request.case_id, limits)


def _request(
    goal: BisectGoal, limits: Mapping[str, Any]
) -> tuple[BisectRequest, ExperimentContext]:
    from nightbench.experiments.bisect_request import complete_goal, make_request

    goal = complete_goal(goal, lambda: common.open_warehouse("nightbench_reader"))
    goal = dataclasses.replace(
        goal,
        suite=experiment_common.absolute(goal.suite or experiment_common.suite_of([goal.case_id])),
        cluster=experiment_common.absolute(goal.cluster) if goal.cluster else None,
    )
    context = _context(goal.suite, goal.cluster, goal.case_id, limits)
    request, problems = asyncio.run(make_request(goal, context, **limits))
    for why in request.left_out.values():
        warn(sentences(why))
    for problem in problems:
        warn(f"no answer from {problem}")
    return request, context


def _context(
    suite: str, cluster: str | None, case_id: str, limits: Mapping[str, Any]
) -> ExperimentContext:
    chosen = Selection(suite, cluster, case=[case_id]).choose()
    return experiment_common.context_of(chosen, outside_hours=limits["outside_hours"])


def _measure(
    name: str, request: BisectRequest, context: ExperimentContext, *, json: bool
) -> Mapping[str, Any]:
    from nightbench.experiments.bisect import measure_bisect
    from nightbench.experiments.bisect_request import store_bisect
    from nightbench.experiments.reporting import BisectReporter

    spool = common.spool()
    folder = store_bisect(
        spool, name, request, getpass.getuser(), context.suite.name, context.cluster.name
    )
    reporter = BisectReporter(experiment_common.sayer(json))
    versions = request.versions
    reporter.say(
        f"{name}: {request.line} {versions[0]} (good) to {versions[-1]} (bad), "
        f"{len(versions) - 2} versions between, by {request.case_id} on {context.cluster.name}"
    )
    work = measure_bisect(folder, spool, context, reporter, common.open_warehouse)
    resume = f"nightbench bisect --resume {name}"
    return experiment_common.measure(work, reporter.refresh, name, resume)


def show(document: Mapping[str, Any]) -> None:
    """Print the tests of a bisect and its result."""
    rows = (
        (
            f"{step['number']} {step['kind']}",
            step["version"],
            step["against"],
            step["result"] or step["status"],
            "" if step["ratio"] is None else f"{step['ratio']:.4f}",
            "" if step["low"] is None else f"{step['low']:.4f} to {step['high']:.4f}",
            str(step["rounds"]),
        )
        for step in document["steps"]
    )
    columns = ("test", "version", "beside", "result", "ratio", "95 % interval", "rounds")
    out.print(common.table(columns, rows))
    for line in lines_of(document):
        say(line)


def lines_of(document: Mapping[str, Any]) -> list[str]:
    """Return the result of a bisect in lines, for the command and for an alert."""
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
