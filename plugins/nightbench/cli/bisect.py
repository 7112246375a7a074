"""compare bisect: find the first version of a framework that made a case slower."""

from __future__ import annotations

import dataclasses
import getpass
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from nightbench.cli import common, experiment_common
from nightbench.cli.common import out, say
from nightbench.cli.selection import Selection
from nightbench.config.experiment_requests import LEAST_ROUNDS, MOST_ROUNDS, BisectRequest
from nightbench.config.request_fields import described
from nightbench.config.validate import checked
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError
from nightbench.core.model.experiments import LIVE, Experiment, ExperimentKind
from nightbench.core.model.values import percentage, positive_duration
from nightbench.core.run_plan import new_run_id
from nightbench.experiments.paired_statistics import percent

NOT_FOUND = 3

app = typer.Typer()


def _help(field: str, more: str = "") -> str:
    return described(BisectRequest, field, more)


@app.command()
@experiment_common.errors_exit_with_2
def bisect(
    alert: Annotated[int | None, typer.Argument(metavar="ALERT", help=_help("alert_id"))] = None,
    good: Annotated[str | None, typer.Option(metavar="VERSION", help=_help("good"))] = None,
    bad: Annotated[str | None, typer.Option(metavar="VERSION", help=_help("bad"))] = None,
    case: Annotated[str | None, typer.Option(metavar="SLUG", help="Case that changed.")] = None,
    suite: Annotated[str | None, typer.Option("--suite", "-s", help=_help("suite"))] = None,
    cluster: common.ClusterOption = None,
    versions: Annotated[
        str, typer.Option(metavar="A,B,C", help=_help("versions", "Separate several with commas."))
    ] = "",
    budget: Annotated[
        str, typer.Option(metavar="TIME", help=_help("budget_s", "Example: 90m."))
    ] = "4h",
    tests: Annotated[int, typer.Option(min=1, help=_help("most_tests"))] = 20,
    rounds: Annotated[
        int, typer.Option(min=LEAST_ROUNDS, max=MOST_ROUNDS, help=_help("rounds"))
    ] = 5,
    min_effect: Annotated[str, typer.Option(metavar="PERCENT", help=_help("min_effect"))] = "1%",
    metric: Annotated[str, typer.Option(metavar="NAME", help=_help("metric"))] = "throughput",
    seed: experiment_common.SeedOption = 1,
    resume: experiment_common.ResumeOption = None,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> int:
    """Find the first version of a framework line that is slower on a case, or trains differently.

    Each version is compared with the good version in rounds of two launches, as `compare` does.

    Exit codes:

    - 0: the first bad version was found.
    - 2: wrong usage, or nothing could be measured.
    - 3: not found: only a range of versions is known, the budget is used up, or the bad version is
      no worse than the good one.
    """
    limits: dict[str, Any] = {
        "budget_s": experiment_common.value_of(positive_duration, budget, "budget"),
        "most_tests": tests,
        "outside_hours": outside_hours,
    }
    if resume is not None:
        if alert is not None or good or bad or case:
            raise UserError("--resume cannot be combined with an alert or versions")
        document = _resume(resume, limits, json=json)
    else:
        fields = {
            "case_id": case,
            "suite": suite,
            "cluster": cluster,
            "good": good,
            "bad": bad,
            "versions": common.words(versions),
            "rounds": rounds,
            "min_effect": experiment_common.value_of(percentage, min_effect, "--min-effect"),
            "metric": metric,
            "seed": seed,
            "alert_id": alert,
            **limits,
        }
        request = checked(BisectRequest, fields)
        name = new_run_id("bisect", datetime.now(UTC))
        document = _measure(name, _complete(request), getpass.getuser(), json=json)
    if json:
        common.print_json(document)
    else:
        show(document)
    return 0 if document["outcome"] == "found" else NOT_FOUND


def _resume(name: str, limits: Mapping[str, Any], *, json: bool) -> Mapping[str, Any]:
    from nightbench.experiments.bisect_request import request_of
    from nightbench.experiments.experiment_spool import resumable_request

    folder = common.spool().comparison(name)
    document = resumable_request(folder, ExperimentKind.BISECT)
    request = dataclasses.replace(request_of(folder), **limits)
    return _measure(name, request, document["requested_by"], json=json)


def _complete(request: BisectRequest) -> BisectRequest:
    from nightbench.experiments.bisect_request import complete_request

    found = complete_request(request, lambda: common.open_warehouse("nightbench_reader"))
    suite = found.suite or experiment_common.suite_of([found.case_id])
    return dataclasses.replace(
        found,
        suite=experiment_common.absolute(suite),
        cluster=experiment_common.absolute(found.cluster) if found.cluster else None,
    )


def _measure(name: str, request: BisectRequest, by: str, *, json: bool) -> Mapping[str, Any]:
    chosen = Selection(request.suite, request.cluster, cases=[request.case_id]).choose()
    context = experiment_common.context_of(chosen, outside_hours=request.outside_hours)
    experiment = Experiment(
        name,
        ExperimentKind.BISECT,
        to_document(request),
        chosen.suite.name,
        chosen.cluster.name,
        by,
        alert_id=request.alert_id,
        budget_s=request.budget_s,
    )
    ended = experiment_common.at_terminal(experiment, context, json=json)
    assert ended.result is not None
    return ended.result


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
    """Return the result of a bisect as lines, for the command and for an alert."""
    ratio, spent = document["ratio"], document["spent_s"] / 60
    lines = [f"{document['bisect_id']}: {document['sentence']}"]
    if ratio is not None:
        lines.append(
            f"{document['line']} {document['bad']} is {percent(abs(1 - ratio))} "
            f"{'slow' if ratio < 1 else 'fast'}er than {document['good']} on {document['case_id']}"
        )
    lines += document["notes"]
    count = len(document["steps"])
    lines.append(f"{count} tests, {spent:.1f} min; state {document['state']}")
    if document["outcome"] is None and document["state"] not in LIVE:
        lines.append(f"Continue: nightbench compare bisect --resume {document['bisect_id']}")
    return lines
