"""ab: two builds of a framework line beside each other, before a merge."""

from __future__ import annotations

import traceback
from typing import Annotated

import typer

from nightbench.cli import ab_run, common
from nightbench.cli.common import err
from nightbench.core.errors import UserError
from nightbench.experiments.paired import LEAST_ROUNDS

app = typer.Typer()


@app.command()
def ab(
    build_a: Annotated[
        str | None,
        typer.Argument(
            metavar="BUILD_A",
            help="What B is held against: LINE=VERSION, LINE=FILE.whl or LINE=/PREFIX on the "
            "nodes.",
        ),
    ] = None,
    build_b: Annotated[
        str | None, typer.Argument(metavar="BUILD_B", help="The candidate, of the same line.")
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option("--case", metavar="SLUG", help="A case. May be given several times."),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite",
            "-s",
            help="Suite of the cases, by name or file; all its cases of the line unless --case "
            "names some.",
        ),
    ] = None,
    cluster: common.ClusterOption = None,
    frameworks: common.FrameworksOption = "",
    workloads: common.WorkloadsOption = "",
    strategies: common.StrategiesOption = "",
    scale: common.ScaleOption = None,
    rounds: Annotated[
        int,
        typer.Option(min=LEAST_ROUNDS, max=1000, help="Rounds of each case: a launch of A and B."),
    ] = 7,
    min_effect: Annotated[
        str, typer.Option(metavar="PERCENT", help="The smallest effect that matters.")
    ] = "1%",
    seed: Annotated[int, typer.Option(help="Says which build begins the first round.")] = 1,
    channel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL", help="Post the result there: an Apprise URL, or apprise://conn/ID."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Go on with a comparison that was ended on its way."),
    ] = None,
    outside_hours: common.OutsideHoursOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the figures of every round.")
    ] = False,
    json: common.JsonOption = False,
) -> None:
    """Compare two builds of a framework line, in rounds of two launches on the same nodes.

    The order alternates (AB BA AB …). Each launch is a fresh one. The answer is the ratio of B's
    throughput to A's with its 95 % interval.

    Exit codes: 0 B is faster or the same; 1 B is slower by more than --min-effect, with
    confidence; 2 bad usage, or nothing could be measured; 3 inconclusive.
    """
    # 1 means slower here. So nothing else may end with it: no error of the user's, and none of
    # ours, of which Python would make a 1 as well.
    try:
        if resume is not None:
            if build_a or case or suite:
                raise UserError("resume: found builds or cases beside it; it knows its own")
            code = ab_run.take_up(resume, channel or [], verbose=verbose, json=json)
        else:
            if not (build_a and build_b):
                raise UserError("builds: found fewer than two; expected BUILD_A and BUILD_B")
            asked = ab_run.Asked(
                a=ab_run.pinned(build_a),
                b=ab_run.pinned(build_b),
                suite=ab_run.absolute(suite) if suite else ab_run.suite_of(case or []),
                cases=case or [],
                cluster=ab_run.absolute(cluster) if cluster else None,
                frameworks=frameworks,
                workloads=workloads,
                strategies=strategies,
                scale=scale,
                rounds=rounds,
                min_effect=ab_run.effect_of(min_effect),
                seed=seed,
                outside_hours=outside_hours,
            )
            code = ab_run.begin(asked, channel or [], verbose=verbose, json=json)
    except UserError as error:
        err.print(f"error: {error}", markup=False, soft_wrap=True)
        code = ab_run.BAD_USAGE
    except Exception:  # Any fault of ours: it must not look like a slower build.
        traceback.print_exc()
        code = ab_run.BAD_USAGE
    raise typer.Exit(code)
