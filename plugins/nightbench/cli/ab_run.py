"""What `nightbench ab` does: from what was asked to an answer and its exit code."""

from __future__ import annotations

import asyncio
import dataclasses
import getpass
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightbench.cli import common
from nightbench.cli.ab_view import View, show, summary
from nightbench.cli.common import INTERRUPTED, err, out
from nightbench.core.errors import UserError
from nightbench.experiments.paired import Outcome

if TYPE_CHECKING:
    from nightbench.core.model import Build, Suite
    from nightbench.experiments.comparisons import ComparisonPlan

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


def begin(asked: Asked, channels: list[str], *, verbose: bool, json: bool) -> int:
    """Begin a comparison; the exit code.

    Raises:
        UserError: what was asked for cannot be measured.
    """
    from nightbench.experiments import comparisons

    name = comparisons.new_comparison_id(datetime.now(UTC))
    chosen, a, b = _chosen(asked)
    if a.line != b.line:
        raise UserError(
            f"builds: found {a.line} and {b.line}; expected two builds of one framework line"
        )
    # Before a node is looked at: what the cluster cannot run is said at once.
    _plan(asked, name, {})
    left_out = asyncio.run(_out(chosen, a.line))
    for node, reason in left_out.items():
        err.print(f"{node} takes no part: {reason}", markup=False, soft_wrap=True)
    plan = _plan(asked, name, left_out)
    return _measure(asked, plan, channels, verbose=verbose, json=json)


def take_up(name: str, channels: list[str], *, verbose: bool, json: bool) -> int:
    """Go on with a comparison; where it is complete its answer is shown again. The exit code.

    Raises:
        UserError: there is none, it goes on right now, or what it measures has changed.
    """
    from nightbench.experiments import comparison_result, comparisons

    folder = common.spool().comparison(name)
    known = comparisons.known_of(folder)
    if "alert_id" in known["asked"]:
        alert_id = known["asked"]["alert_id"]
        raise UserError(
            f"{name} measures an alert's regression again: nightbench alert confirm {alert_id}"
        )
    if folder.is_steered():
        raise UserError(f"{name} is measured right now by another process")
    answer = comparison_result.saved_answer(folder)
    if answer is not None and answer["complete"]:
        return _finish(answer, channels, verbose=verbose, json=json)
    asked = Asked(**known["asked"])
    plan = _plan(asked, name, known["left_out"])
    return _measure(asked, plan, channels, verbose=verbose, json=json)


async def _out(chosen: common.Chosen, line: str) -> dict[str, str]:
    """Look at the nodes: which take no part, because they are ill or in quarantine."""
    from nightbench.night import cluster_preflight, node_placement
    from nightbench.nodes import NodeState
    from nightbench.warehouse.connection import WarehouseUnavailable
    from nightbench.warehouse.nodes import NodeRepository

    cluster = chosen.cluster
    found = await cluster_preflight.examine(
        cluster,
        common.reach(cluster),
        common.shipment(cluster),
        [chosen.catalog.frameworks[line]],
        sweep=True,
    )
    states: dict[str, NodeState] = {}
    try:
        with closing(common.open_warehouse()) as connection:
            states = NodeRepository(connection).states(cluster.name)
    except WarehouseUnavailable:
        pass  # Nobody knows of quarantines then; what the look has found counts all the same.
    return node_placement.out_tonight(found, states)


def _measure(
    asked: Asked, plan: ComparisonPlan, channels: list[str], *, verbose: bool, json: bool
) -> int:
    """Measure what is missing, judge, show; the exit code."""
    from nightbench.experiments import compare, comparison_result, comparisons
    from nightbench.gang import direct

    common.home().make()
    targets = common.reach(plan.cluster)
    folder = comparisons.store_comparison(
        plan, common.spool(), dataclasses.asdict(asked), getpass.getuser()
    )
    view = View(err if json else out, plan, folder)
    view.headline()
    stopped: str | None = None
    work = compare.measure_comparison(
        plan, folder, targets, common.shipment(plan.cluster), view.listener()
    )
    try:
        with folder.steered():
            asyncio.run(direct.until_done(work, view.refresh))
    except KeyboardInterrupt:
        err.print(
            f"{plan.comparison_id} was interrupted; its processes on the nodes have been ended. "
            f"Go on: nightbench ab --resume {plan.comparison_id}",
            markup=False,
            soft_wrap=True,
        )
        return INTERRUPTED
    except compare.Stopped as error:
        stopped = str(error)
    document = comparison_result.answer(plan, folder, stopped)
    comparison_result.save_answer(folder, document)
    return _finish(document, channels, verbose=verbose, json=json)


def end_comparison(name: str) -> bool:
    """End a comparison on its nodes for `nightbench cancel`; False where there is none so named.

    Raises:
        UserError: a node does not answer; its gang ends with its lease.
    """
    from nightbench import gang
    from nightbench.experiments import comparisons

    # By comparing names: a DAG run's is no name of a folder.
    folder = next((each for each in common.spool().comparisons() if each.run_id == name), None)
    if folder is None:
        return False
    known = comparisons.known_of(folder)
    if "alert_id" in known["asked"]:
        cluster = common.cluster_of(known["cluster"])
        again = f"nightbench alert confirm {known['asked']['alert_id']}"
    else:
        cluster = _chosen(Asked(**known["asked"]))[0].cluster
        again = f"nightbench ab --resume {name}"
    targets = common.reach(cluster)
    asyncio.run(gang.cancel_run(name, cluster, targets, "cancelled by the user"))
    common.say(f"{name} is cancelled: no process of it is left on {cluster.name}. Go on: {again}")
    return True


def _chosen(asked: Asked) -> tuple[common.Chosen, Build, Build]:
    """The suite with its cases of the line, cluster and catalog, and the two builds."""
    from nightbench.config import parse_build

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
    return chosen, a, b


def _plan(asked: Asked, name: str, left_out: Mapping[str, str]) -> ComparisonPlan:
    from nightbench.experiments import comparisons
    from nightbench.night import night_plan

    chosen, a, b = _chosen(asked)
    deadline = None
    now = datetime.now(UTC)
    if not asked.outside_hours and (span := night_plan.open_now(chosen.cluster, now)):
        deadline = span.end
    return comparisons.plan_comparison(
        only(chosen.suite, asked.cases),
        chosen.cluster,
        chosen.catalog,
        (a, b),
        comparison_id=name,
        rounds=asked.rounds,
        min_effect=asked.min_effect,
        seed=asked.seed,
        deadline=deadline,
        left_out=left_out,
        past=common.past(chosen.cluster.name) if deadline else None,
    )


def only(suite: Suite, names: Sequence[str]) -> Suite:
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


def pinned(text: str) -> str:
    """A build as it can be said from any folder.

    Raises:
        UserError: the text is no build.
    """
    from nightbench.config import parse_build

    build = parse_build(text)
    return f"{build.line}={build.location}" if build.source == "wheel" else text


def absolute(name: str) -> str:
    """A suite or cluster as it can be said from any folder: a name, or the path of its file."""
    if name.endswith((".yaml", ".yml")):
        return str(Path(name).expanduser().absolute())
    return name


def effect_of(text: str, key: str = "min-effect") -> float:
    """A part of the throughput, from `1%`; `key` names it in a message.

    Raises:
        UserError: it is no percentage.
    """
    from nightbench.config import values

    try:
        return values.percentage(text)
    except ValueError as error:
        raise UserError(f"{key}: {error}") from None


def suite_of(cases: Sequence[str]) -> str:
    """The one suite that holds all the cases.

    Raises:
        UserError: none does, or several do.
    """
    from nightbench.config import find_suites, load_suite, locations

    if not cases:
        raise UserError("cases: found none; expected --case SLUG or --suite NAME")
    catalog = common.catalog()
    holding = []
    for name, path in sorted(find_suites(locations.dags_folder()).items()):
        have = {case.case_id for case in load_suite(path, catalog).cases}
        if have >= set(cases):
            holding.append(name)
    if len(holding) != 1:
        found = f"{len(holding)} suites ({', '.join(holding)})" if holding else "no suite"
        raise UserError(f"case: found {found} with {', '.join(cases)}; say which by --suite")
    return holding[0]


def _finish(document: dict[str, Any], channels: list[str], *, verbose: bool, json: bool) -> int:
    """Show the answer, post it, and return the exit code."""
    from nightbench.experiments import comparison_result

    if json:
        common.print_json(document)
    else:
        show(out, document, verbose=verbose)
    sys.stdout.flush()
    if channels:
        _post(document, channels)
    return _CODES[comparison_result.outcome_of(document)]


def _post(document: dict[str, Any], channels: list[str]) -> None:
    """Send the answer; a channel that takes nothing is told and changes no exit code."""
    from nightbench.alerts import send

    title, body = summary(document)
    for delivery in send(channels, title, body, common.channel_url):
        said = "was told" if delivery.sent else f"took no message: {delivery.error}"
        err.print(f"{delivery.channel} {said}", markup=False, soft_wrap=True)
