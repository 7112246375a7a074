"""Measures a suspected change again: the last good build and the night's, on the same nodes.

Once more on other nodes, if the cluster has them. Each place is a comparison, so another process
can resume after the last launch that has ended. If both builds are the same, the rounds launch
it twice, and its launches are compared with the level of the nights before. Results that the
night's own nodes leave open get more rounds there, in the time that no other suspect needs.

All that asks the warehouse raises `WarehouseUnavailable` if it is away.
"""

import logging
import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from nightbench.config.experiment_requests import LEAST_ROUNDS
from nightbench.core.budget import PREPARE_S
from nightbench.core.documents import from_document, to_document
from nightbench.core.errors import UserError, WarehouseUnavailable
from nightbench.core.model import Build, Reason, ReasonCode
from nightbench.core.model.alerts import Confirmation, ConfirmationResult
from nightbench.core.model.experiments import Experiment, ExperimentKind
from nightbench.core.run_plan import RunPlan
from nightbench.core.sentences import sentences
from nightbench.experiments.comparison import (
    ComparisonPlan,
    as_in_night,
    plan_comparison,
    refuse_other,
)
from nightbench.experiments.confirm_outcome import confirmation, inconclusive, pooled
from nightbench.experiments.engine import ExperimentContext, Turn, run_comparison, unfit_nodes
from nightbench.experiments.experiment_spool import Document
from nightbench.experiments.record import Ended
from nightbench.gang import EnvironmentUnavailable
from nightbench.night.suspected_regressions import (
    BuildGone,
    SuspectedRegression,
    builds_of,
    rounds_of,
    smallest_effect,
)
from nightbench.nodes import NodesOut, left_out_because, nodes_out_from_json, nodes_out_to_json
from nightbench.spool import Spool
from nightbench.spool.plans import read_plan
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect

log = logging.getLogger(__name__)

ELSEWHERE = "-other"
"""Ends the id of the comparison on other nodes."""

MORE = "-more"
"""Ends the id of the comparison that adds rounds if the first ones left it open."""

MOST_MORE = 15
"""Rounds that are added at most."""

_SEED = 1


class MeasuredElsewhere(UserError):
    """Another process measures this confirmation right now."""


def spare_seconds(connect: Connect, experiment: Experiment) -> float:
    """Return the rest of a night's time for suspects after the other suspects."""
    if experiment.until is None:
        return 0.0
    try:
        with opened(connect) as warehouse:
            waiting = warehouse.experiments.waiting(experiment.run_id)
    except WarehouseUnavailable:
        return 0.0  # Results are not lost: storing the outcome is tried again.
    others = [row for row in waiting if row["name"] != experiment.name]
    needed = math.fsum(row["estimate_s"] or 0.0 for row in others)
    return (experiment.until - datetime.now(UTC)).total_seconds() - needed


def runs_to_confirm(connect: Connect, run_ids: Iterable[str]) -> list[str]:
    """Return those of the runs, each once, whose message waits for confirmations."""
    with opened(connect) as warehouse:
        return [
            run_id for run_id in dict.fromkeys(run_ids) if warehouse.experiments.waiting(run_id)
        ]


def runs_to_notify(connect: Connect) -> list[str]:
    """Cancel what did not end in time; return the runs whose messages wait no longer."""
    with opened(connect) as warehouse:
        warehouse.experiments.give_up_overdue("Not measured: the measurement did not end in time")
        return warehouse.experiments.runs_to_notify()


def is_measured(spool: Spool, name: str) -> bool:
    """Return whether a living process measures a confirmation."""
    return any(spool.comparison(name + suffix).is_controlled() for suffix in ("", ELSEWHERE, MORE))


def ended_as(found: Confirmation, **more: Document | str | bool | None) -> Ended:
    """Return an outcome, and the results of both places, as the warehouse stores them."""
    return Ended("done", result={**to_document(found), **more})


# --- measuring ----------------------------------------------------------------------------


async def measure_confirmation(turn: Turn) -> Ended:
    """Measure what is missing of the launches of a night's suspect.

    If these leave it open, more rounds are measured in the seconds that no other suspect needs.

    Raises:
        NodeError: a node does not answer before its first launch; another try may find it.
        MeasuredElsewhere: another process measures it right now.
        UserError: the case, its nodes or the code have changed since it was begun.
        asyncio.CancelledError: after the gang has been ended on the nodes.
    """
    experiment, spool, context, record = turn.experiment, turn.spool, turn.context, turn.record
    suspect = from_document(SuspectedRegression, experiment.request)
    night, cluster = read_plan(spool.run(suspect.run_id)), context.cluster
    if is_measured(spool, experiment.name):
        raise MeasuredElsewhere(f"{experiment.name} is being measured by another process")
    try:
        builds = builds_of(suspect)
    except BuildGone as error:
        return ended_as(inconclusive(str(error)))
    nodes = [node.name for node in cluster.nodes]
    removed = sorted(set(suspect.nodes) - set(nodes))
    if removed:
        return ended_as(inconclusive(f"{cluster.name} no longer has {', '.join(removed)}"))
    begun = turn.folder.run()
    if begun is not None:
        unfit = nodes_out_from_json(begun["request"]["unfit"])
    else:
        unfit = await unfit_nodes(turn, suspect.bad.line)
    out = [sentences(unfit[node]) for node in suspect.nodes if node in unfit]
    if out:
        return ended_as(inconclusive("; ".join(out)))

    async def measure(suffix: str, out: NodesOut, rounds: int | None = None) -> Document:
        name = experiment.name + suffix
        plan = _plan(name, suspect, night, context, builds, suffix, out, rounds)
        kept = {"alert_id": suspect.alert_id, "unfit": nodes_out_to_json(unfit)}
        return await run_comparison(plan, kept, experiment.requested_by, turn, record.note)

    others = [node for node in nodes if node not in suspect.nodes]
    try:
        here = await measure("", nodes_of_night(others, "others"))
    except EnvironmentUnavailable as error:
        return ended_as(inconclusive(f"one of the builds is no longer available: {error}"))
    there: Document | str | None = None
    # If time ran out on the night's own nodes, there is none for other nodes.
    if here["complete"] and len(set(others) - unfit.keys()) >= len(suspect.nodes):
        try:
            there = await measure(ELSEWHERE, unfit | nodes_of_night(suspect.nodes, "it"))
        except UserError as error:
            # The result of the night's own nodes is valid without it.
            there = str(error)
    found = confirmation(suspect, builds, here, there)
    begun = spool.comparison(experiment.name + MORE).run()
    more = (
        begun["identity"]["rounds"]
        if begun
        else _more_rounds(found, here, lambda: spare_seconds(record.connect, experiment))
    )
    if more:
        try:
            here = pooled(here, await measure(MORE, nodes_of_night(others, "others"), more))
        except UserError as error:
            # The result of the first rounds is valid without them.
            log.warning("%s: no rounds were added: %s", experiment.name, error)
        else:
            found = confirmation(suspect, builds, here, there)
    return ended_as(found, here=here, there=there, pairs=builds is not None)


def _more_rounds(found: Confirmation, here: Document, spare_s: Callable[[], float]) -> int:
    """Return how many rounds can be added if the first rounds were inconclusive."""
    is_open = found.outcome is ConfirmationResult.INCONCLUSIVE and found.low is not None
    if not (is_open and here["complete"]):
        return 0
    began, ended = (datetime.fromisoformat(here[key]) for key in ("started_at", "ended_at"))
    each_s = (ended - began).total_seconds() / here["rounds"]
    fit = int((spare_s() - PREPARE_S) / max(each_s, 1.0))
    return min(fit, MOST_MORE) if fit >= LEAST_ROUNDS else 0


def nodes_of_night(nodes: Iterable[str], measured_on: str) -> NodesOut:
    """Return nodes that are left out because the night measured elsewhere: on `others`, say."""
    code = ReasonCode.NIGHT_MEASURED_ON
    return {
        node: left_out_because(node, Reason(code, node, observed=measured_on)) for node in nodes
    }


def _plan(
    name: str,
    suspect: SuspectedRegression,
    night: RunPlan,
    context: ExperimentContext,
    builds: tuple[Build, Build] | None,
    suffix: str,
    out: NodesOut,
    more: int | None,
) -> ComparisonPlan:
    case = next(
        each.planned.case for each in night.cases if each.planned.case_id == suspect.case_id
    )
    rounds_here, rounds_elsewhere = rounds_of(builds is not None)
    plan = plan_comparison(
        as_in_night(context, night, case),
        builds or (suspect.bad, suspect.bad),
        comparison_id=name,
        rounds=more or (rounds_elsewhere if suffix == ELSEWHERE else rounds_here),
        min_effect=smallest_effect(suspect, night.policy.clear_change, has_two=builds is not None),
        seed=_SEED + (suffix == MORE),
        left_out=out,
        kind=ExperimentKind.CONFIRM,
    )
    nodes = None if suffix == ELSEWHERE else suspect.nodes
    refuse_other(plan, night, suspect.definition_digest, nodes)
    return plan
