"""compare: compare two builds of a framework line; subcommands bisect, profile, confirm."""

from __future__ import annotations

import dataclasses
import getpass
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from nightbench.cli import bisect, common, confirm, experiment_common, profile
from nightbench.cli.common import out, say
from nightbench.cli.selection import Chosen, Selection, selecting
from nightbench.config import parse_build
from nightbench.config.experiment_requests import LEAST_ROUNDS, MOST_ROUNDS, CompareRequest
from nightbench.config.request_fields import described
from nightbench.config.validate import checked
from nightbench.core.errors import UserError
from nightbench.core.losses import trained_differently
from nightbench.core.model.experiments import Experiment, ExperimentKind
from nightbench.core.model.values import percentage
from nightbench.core.run_plan import new_run_id
from nightbench.core.sentences import compared
from nightbench.experiments.paired_statistics import percent

if TYPE_CHECKING:
    from nightbench.experiments.record import Ended

EXIT_CODES = {"faster": 0, "same": 0, "slower": 1, "inconclusive": 3}
_COLOURS = {"faster": "green", "same": "green", "slower": "red", "inconclusive": "yellow"}

Document = Mapping[str, Any]

BUILDS = "builds"
"""The subcommand that is called if none is named."""


class CompareGroup(TyperGroup):
    """The group `compare`; its first word may be a build."""

    default = BUILDS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Call `builds` if the first word is no subcommand."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [self.default, *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(help="Compare two builds of a framework line.", cls=CompareGroup)
for each in (bisect, profile, confirm):
    app.add_typer(each.app)


@app.command(BUILDS)
@selecting("suite", "repeats", "builds", "untried", "stand_ins")
@experiment_common.errors_exit_with_2
def builds(
    selection: Selection,
    build_a: Annotated[
        str | None, typer.Argument(metavar="BUILD_A", help=described(CompareRequest, "a"))
    ] = None,
    build_b: Annotated[
        str | None, typer.Argument(metavar="BUILD_B", help=described(CompareRequest, "b"))
    ] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help=described(CompareRequest, "suite"))
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(min=LEAST_ROUNDS, max=MOST_ROUNDS, help=described(CompareRequest, "rounds")),
    ] = 7,
    min_effect: Annotated[
        str, typer.Option(metavar="PERCENT", help=described(CompareRequest, "min_effect"))
    ] = "1%",
    seed: experiment_common.SeedOption = 1,
    channel: experiment_common.ChannelOption = None,
    resume: experiment_common.ResumeOption = None,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> int:
    """Compare two builds on the same nodes; the word `builds` is optional.

    Each round has a new launch of each build, in alternating order (AB BA AB …). The result is the
    ratio of B's throughput to A's with its 95 % interval.

    Exit codes:

    - 0: B is faster than A, or as fast as A.
    - 1: B is slower (its whole interval is beyond --min-effect), or B trains differently from A.
    - 2: wrong usage, or nothing could be measured.
    - 3: inconclusive.
    """
    if resume is not None:
        if build_a or selection.cases or suite:
            raise UserError("--resume cannot be combined with builds or cases")
        document = _resume(resume, json=json)
    else:
        if not (build_a and build_b):
            raise UserError("builds: found fewer than two; expected BUILD_A and BUILD_B")
        limits = {
            "rounds": rounds,
            "min_effect": experiment_common.value_of(percentage, min_effect, "--min-effect"),
            "seed": seed,
            "outside_hours": outside_hours,
        }
        document = _begin(_request(build_a, build_b, suite, selection, limits), json=json)
    if json:
        common.print_json(document)
    else:
        show(document)
    sys.stdout.flush()
    if channel:
        experiment_common.post(channel, *summary(document))
    return 1 if trained_differently(document) else EXIT_CODES[document["verdict"]]


def _request(
    a: str, b: str, suite: str | None, selection: Selection, limits: Mapping[str, Any]
) -> CompareRequest:
    cases, cluster = selection.cases or [], selection.cluster
    fields = {
        "a": experiment_common.pinned(a),
        "b": experiment_common.pinned(b),
        "suite": experiment_common.absolute(suite or experiment_common.suite_of(cases)),
        "cases": cases,
        "cluster": experiment_common.absolute(cluster) if cluster else None,
        "frameworks": selection.frameworks,
        "workloads": selection.workloads,
        "strategies": selection.strategies,
        "scale": selection.scale,
        **limits,
    }
    return checked(CompareRequest, fields)


def _begin(request: CompareRequest, *, json: bool) -> Document:
    from nightbench.experiments.compare import plan_compare
    from nightbench.experiments.comparison import ComparisonContext

    name = new_run_id("compare", datetime.now(UTC))
    chosen = chosen_of(request)
    # Before a node is reached: a case that the cluster cannot run is reported at once.
    where = ComparisonContext(chosen.suite, chosen.cluster, chosen.catalog)
    plan_compare(request, name, where)
    return _measure(name, request, chosen, getpass.getuser(), json=json)


def _resume(name: str, *, json: bool) -> Document:
    """Measure the missing rounds of a comparison and return its result."""
    from nightbench.experiments.comparison import saved_result
    from nightbench.experiments.experiment_spool import resumable_request

    folder = common.spool().comparison(name)
    document = resumable_request(folder, ExperimentKind.COMPARE)
    request = CompareRequest.of(document["request"])
    result = saved_result(folder)
    if result is not None and result["complete"]:
        return result
    return _measure(name, request, chosen_of(request), document["requested_by"], json=json)


def _measure(
    name: str, request: CompareRequest, chosen: Chosen, by: str, *, json: bool
) -> Document:
    context = experiment_common.context_of(chosen, outside_hours=request.outside_hours)
    where = (chosen.suite.name, chosen.cluster.name)
    asked = dataclasses.asdict(request)
    experiment = Experiment(name, ExperimentKind.COMPARE, asked, *where, by)
    ended: Ended = experiment_common.at_terminal(experiment, context, json=json)
    assert ended.result is not None
    return ended.result


def chosen_of(request: CompareRequest) -> Chosen:
    """Return the suite with its cases of the builds' line, its cluster and the catalog."""
    return Selection(
        request.suite,
        request.cluster,
        frameworks=request.frameworks or parse_build(request.a).line,
        workloads=request.workloads,
        strategies=request.strategies,
        scale=request.scale,
        builds=[request.a],
    ).choose()


def show(document: Document) -> None:
    """Print a result as a table and sentences."""
    rows: list[tuple[str | Text, ...]] = [
        (
            row["case_id"],
            *_figures(row),
            " ".join(row["order"]) or "-",
            Text(row["verdict"], style=_COLOURS[row["verdict"]]),
        )
        for row in document["cases"]
    ]
    if both := document["combined"]:
        rows.append(("all cases, mean", *_figures(both), "", both["verdict"]))
    columns = ("case", "B / A", "interval", "n", "p", "order", "verdict")
    out.print(common.table(columns, rows))
    for line in _lines(document):
        say(line)


def _figures(row: Document) -> tuple[str, str, str, str]:
    interval = "-" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"
    return (
        "-" if row["ratio"] is None else f"{row['ratio']:.4f}",
        interval,
        str(row["n"]),
        "-" if row["p_value"] is None else f"{row['p_value']:.3g}",
    )


def _lines(document: Document) -> list[str]:
    lines = []
    for row in document["cases"]:
        lines.append(f"{row['case_id']}: {row['verdict']}. {row['sentence']}.")
        if training := row.get("training"):
            lines.append(f"  {training['sentence']}")
        if row["stopped"]:
            lines.append(f"  {row['n']} of {document['rounds']} rounds: {row['stopped']}")
        elif row["dropped"]:
            lines.append(f"  {len(row['dropped'])} rounds were dropped and measured again")
    if document["not_combined"]:
        lines.append(f"There is no mean of all cases: {document['not_combined']}.")
    level = document["cases"][0]["level"]
    lines.append(
        f"{document['verdict']}: B {document['b']['build_id']} compared with A "
        f"{document['a']['build_id']} on {document['cluster']}; smallest difference that matters "
        f"{percent(document['min_effect'])}, intervals of {percent(level)}"
    )
    if document["shared"]:
        lines.append("The cluster's nodes share hardware with each other or with neighbours.")
    lines.append(f"id {document['id']}, seed {document['seed']}")
    return lines


def summary(document: Document) -> tuple[str, str]:
    """Return title and plain text of a message."""
    a, b = (document[arm]["build_id"] for arm in ("a", "b"))
    title = f"Nightbench compare on {document['cluster']}: {compared(b, document['verdict'], a)}"
    if trained_differently(document):
        title += ", and it trains differently"
    rows = []
    for row in document["cases"]:
        ratio, interval, n, _ = _figures(row)
        rows.append(f"- {row['case_id']}: {row['verdict']}, B / A {ratio} ({interval}), n {n}")
    return title, "\n".join([*rows, "", *_lines(document)])
