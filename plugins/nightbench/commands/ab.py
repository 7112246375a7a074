"""ab: two builds of a framework line beside each other, before a merge."""

from __future__ import annotations

import asyncio
import dataclasses
import getpass
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.commands import common
from nightbench.commands.ab_view import View, show, summary
from nightbench.commands.common import INTERRUPTED, err, out
from nightbench.errors import UserError
from nightbench.paired import LEAST_ROUNDS, Outcome

if TYPE_CHECKING:
    from nightbench.model import Suite
    from nightbench.pipeline.comparisons import ComparisonPlan

app = typer.Typer()

SLOWER, BAD_USAGE, INCONCLUSIVE = 1, 2, 3
_CODES = {
    Outcome.FASTER: 0,
    Outcome.SAME: 0,
    Outcome.SLOWER: SLOWER,
    Outcome.INCONCLUSIVE: INCONCLUSIVE,
}


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the command line asks for; kept in the spool, so that it can be taken up again."""

    a: str
    b: str
    suite: str
    cases: list[str]
    cluster: str | None
    frameworks: str
    workloads: str
    strategies: str
    scale: str | None
    rounds: int
    min_effect: float
    seed: int
    outside_hours: bool


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
            code = _resume(resume, channel or [], verbose=verbose, json=json)
        else:
            asked = _asked(build_a, build_b, suite, case or [], min_effect)
            asked = dataclasses.replace(
                asked,
                cluster=cluster,
                frameworks=frameworks,
                workloads=workloads,
                strategies=strategies,
                scale=scale,
                rounds=rounds,
                seed=seed,
                outside_hours=outside_hours,
            )
            code = _begin(asked, channel or [], verbose=verbose, json=json)
    except UserError as error:
        err.print(f"error: {error}", markup=False, soft_wrap=True)
        code = BAD_USAGE
    except Exception:
        traceback.print_exc()
        code = BAD_USAGE
    raise typer.Exit(code)


def _asked(
    build_a: str | None, build_b: str | None, suite: str | None, cases: list[str], effect: str
) -> Asked:
    from nightbench.config import values

    if not (build_a and build_b):
        raise UserError("builds: found fewer than two; expected BUILD_A and BUILD_B")
    try:
        min_effect = values.percentage(effect)
    except ValueError as error:
        raise UserError(f"min-effect: {error}") from None
    if suite is None:
        suite = _suite_of(cases)
    return Asked(build_a, build_b, suite, cases, None, "", "", "", None, 0, min_effect, 0, False)


def _suite_of(cases: Sequence[str]) -> str:
    """The one suite that holds all the cases.

    Raises:
        UserError: none does, or several do.
    """
    from nightbench.config import find_suites, load_suite
    from nightbench.orchestration import places

    if not cases:
        raise UserError("cases: found none; expected --case SLUG or --suite NAME")
    catalog = common.catalog()
    holding = []
    for name, path in sorted(find_suites(places.dags_folder()).items()):
        have = {case.case_id for case in load_suite(path, catalog).cases}
        if have >= set(cases):
            holding.append(name)
    if len(holding) != 1:
        found = f"{len(holding)} suites ({', '.join(holding)})" if holding else "no suite"
        raise UserError(f"case: found {found} with {', '.join(cases)}; say which by --suite")
    return holding[0]


def _begin(asked: Asked, channels: list[str], *, verbose: bool, json: bool) -> int:
    from nightbench.pipeline import comparisons

    name = comparisons.new_comparison_id(datetime.now(UTC))
    return _measure(asked, name, channels, verbose=verbose, json=json)


def _resume(name: str, channels: list[str], *, verbose: bool, json: bool) -> int:
    from nightbench.pipeline import comparisons

    folder = common.spool().comparison(name)
    asked = Asked(**comparisons.asked_of(folder))
    if folder.is_steered():
        raise UserError(f"{name} is measured right now by another process")
    known = comparisons.saved_answer(folder)
    if known is not None and known["complete"]:
        return _finish(known, channels, verbose=verbose, json=json)
    return _measure(asked, name, channels, verbose=verbose, json=json)


def _measure(asked: Asked, name: str, channels: list[str], *, verbose: bool, json: bool) -> int:
    """Plan, measure, judge, show; the exit code."""
    from nightbench import direct
    from nightbench.pipeline import comparing, comparisons

    common.home().make()
    plan = _plan(asked, name)
    targets = common.reach(plan.cluster)
    folder = comparisons.store_comparison(
        plan, common.spool(), dataclasses.asdict(asked), getpass.getuser()
    )
    view = View(err if json else out, plan, folder)
    view.headline()
    stopped: str | None = None
    work = comparing.measure_comparison(
        plan, folder, targets, common.shipment(plan.cluster), view.listener()
    )
    try:
        with folder.steered():
            asyncio.run(direct.until_done(work, view.refresh))
    except KeyboardInterrupt:
        err.print(
            f"{name} was interrupted; its processes on the nodes have been ended. Go on: "
            f"nightbench ab --resume {name}",
            markup=False,
            soft_wrap=True,
        )
        return INTERRUPTED
    except comparing.Stopped as error:
        stopped = str(error)
    document = comparisons.answer(plan, folder, stopped)
    comparisons.save_answer(folder, document)
    return _finish(document, channels, verbose=verbose, json=json)


def _plan(asked: Asked, name: str) -> ComparisonPlan:
    from nightbench import pipeline
    from nightbench.config import parse_build
    from nightbench.pipeline import comparisons

    a, b = parse_build(asked.a), parse_build(asked.b)
    chosen = common.choose(
        asked.suite,
        asked.cluster,
        frameworks=asked.frameworks or a.line,
        workloads=asked.workloads,
        strategies=asked.strategies,
        scale=asked.scale,
        builds=[asked.a],
    )
    deadline = None
    now = datetime.now(UTC)
    if not asked.outside_hours and (span := pipeline.open_now(chosen.cluster, now)):
        deadline = span.end
    return comparisons.plan_comparison(
        _only(chosen.suite, asked.cases),
        chosen.cluster,
        chosen.catalog,
        (a, b),
        comparison_id=name,
        rounds=asked.rounds,
        min_effect=asked.min_effect,
        seed=asked.seed,
        deadline=deadline,
    )


def _only(suite: Suite, names: Sequence[str]) -> Suite:
    """The suite with the cases that were named, in its order; all where none was."""
    from nightbench.config.source import one_of

    known = {case.case_id: case for case in suite.cases}
    for name in names:
        if name not in known:
            raise UserError(f"case: {one_of(name, known)}; of the builds' line in {suite.name}")
    if not names:
        return suite
    return dataclasses.replace(
        suite, cases=tuple(case for name, case in known.items() if name in names)
    )


def _finish(document: dict[str, Any], channels: list[str], *, verbose: bool, json: bool) -> int:
    """Show the answer, post it, and return the exit code."""
    from nightbench.pipeline import comparisons

    if json:
        common.print_json(document)
    else:
        show(out, document, verbose=verbose)
    sys.stdout.flush()
    if channels:
        _post(document, channels)
    return _CODES[comparisons.outcome_of(document)]


def _post(document: dict[str, Any], channels: list[str]) -> None:
    """Send the answer; a channel that takes nothing is told and changes no exit code."""
    from nightbench.alerts import send

    title, body = summary(document)

    def resolve(conn_id: str) -> str:
        # Importing Airflow costs seconds: only where a Connection is named.
        from nightbench.orchestration.connections import channel_url

        return channel_url(conn_id)

    for delivery in send(channels, title, body, resolve):
        said = "was told" if delivery.sent else f"took no message: {delivery.error}"
        err.print(f"{delivery.channel} {said}", markup=False, soft_wrap=True)
