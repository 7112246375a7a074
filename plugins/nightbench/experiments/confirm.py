"""Measures a suspected regression again: the last good build and the night's, on the same nodes.

Once more on other nodes, where the cluster has them. Each place is a comparison, so another process
can resume after the last launch that has ended. Where both builds are the same, the rounds launch
it twice, and its launches are compared with the level of the nights before.

The fall of a night has to be distinguished from no fall at all. So the bound lies between them:
half way, or at the suite's smallest change where that is nearer. An interval wholly below it
confirms, one wholly above it does not, and one that contains it is inconclusive.

All that asks the warehouse raises `WarehouseUnavailable` where it is away.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nightbench.core.documents import from_document
from nightbench.core.errors import UserError
from nightbench.core.model import Build, Reason, ReasonCode
from nightbench.core.model.alerts import Confirmation, ConfirmationResult
from nightbench.core.run_plan import RunPlan
from nightbench.core.sentences import sentences
from nightbench.experiments import paired_statistics
from nightbench.experiments.comparison import ComparisonPlan, plan_comparison
from nightbench.experiments.engine import (
    ComparisonObserver,
    ExperimentContext,
    run_comparison,
    unfit_nodes,
)
from nightbench.experiments.experiment_spool import Document
from nightbench.experiments.paired_statistics import LEAST_ROUNDS
from nightbench.experiments.rounds import Arm
from nightbench.gang import EnvironmentUnavailable
from nightbench.night.suspected_regressions import (
    BuildGone,
    SuspectedRegression,
    builds_of,
    rounds_of,
)
from nightbench.nodes import NodesOut, left_out_because, nodes_out_from_json, nodes_out_to_json
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.experiments import NIGHTBENCH, UNDECIDED

ELSEWHERE = "-other"
"""Ends the id of the comparison on other nodes."""

_SEED = 1


class MeasuredElsewhere(UserError):
    """Another process measures this confirmation right now."""


@dataclass(frozen=True)
class ConfirmRequest:
    """A suspect that is to be measured again, as the warehouse stores it."""

    confirmation_id: int
    comparison_id: str
    suspect: SuspectedRegression
    until: datetime | None
    """The end of the night's budget; None where nobody waits."""
    requested_by: str


def begin_confirmation(connect: Connect, confirmation_id: int) -> ConfirmRequest | None:
    """Mark a confirmation as running and return it; None where it has ended or never was."""
    with closing(connect()) as connection:
        repository = Warehouse(connection).confirmations
        if not repository.begin(confirmation_id):
            return None
        (row,) = repository.find(confirmation_id=confirmation_id)
        suspect = from_document(SuspectedRegression, row["detail"])
        return ConfirmRequest(
            confirmation_id, row["comparison_id"], suspect, row["until"], row["asked_by"]
        )


def end_confirmation(
    connect: Connect,
    request: ConfirmRequest,
    found: Confirmation,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Store the outcome of a confirmation; what was measured stays in the spool as well."""
    with closing(connect()) as connection:
        Warehouse(connection).confirmations.end(request.confirmation_id, found, detail)


def runs_to_confirm(connect: Connect, run_ids: Iterable[str]) -> list[str]:
    """Return those of the runs, each once, whose message waits for confirmations."""
    with closing(connect()) as connection:
        repository = Warehouse(connection).confirmations
        return [run_id for run_id in dict.fromkeys(run_ids) if repository.waiting(run_id)]


def give_up_overdue(connect: Connect) -> list[str]:
    """Give up what did not end in time, and return the runs that it belongs to."""
    with closing(connect()) as connection:
        repository = Warehouse(connection).confirmations
        late = {
            row["run_id"]
            for row in repository.find(states=UNDECIDED)
            if row["is_overdue"] and row["asked_by"] == NIGHTBENCH
        }
        why = "Not measured again: it did not end in the night's time for it"
        return [run_id for run_id in sorted(late) if repository.give_up(run_id, why)]


def give_up_rest(connect: Connect, spool: Spool, run_id: str) -> int:
    """Give up what of a run no process measures, and return how many confirmations that was.

    What a living process measures (another DAG run, or a person) goes on, and is waited for.
    """
    with closing(connect()) as connection:
        repository = Warehouse(connection).confirmations
        measured = [
            row["confirmation_id"]
            for row in repository.find(run_id=run_id, states=UNDECIDED)
            if _is_steered(spool, row["comparison_id"])
        ]
        why = "Not measured again: its task ended without an outcome; the task's log says why"
        return repository.give_up(run_id, why, every=True, apart_from=measured)


def _is_steered(spool: Spool, comparison_id: str) -> bool:
    names = (comparison_id, comparison_id + ELSEWHERE)
    return any(spool.comparison(name).is_steered() for name in names)


# --- measuring ----------------------------------------------------------------------------


async def measure_again(
    request: ConfirmRequest,
    night: RunPlan,
    spool: Spool,
    context: ExperimentContext,
    observer: ComparisonObserver,
) -> tuple[Confirmation, dict[str, Any]]:
    """Measure what is missing of the launches of a suspect of `night`.

    Returns the outcome, and the results of both places for the warehouse.

    Raises:
        NodeError: a node does not answer before its first launch; another try may find it.
        MeasuredElsewhere: another process measures it right now.
        UserError: the case, its nodes or the code have changed since it was begun.
        asyncio.CancelledError: after the gang has been ended on the nodes.
    """
    suspect, cluster = request.suspect, context.cluster
    if _is_steered(spool, request.comparison_id):
        raise MeasuredElsewhere(f"{request.comparison_id} is measured right now by another process")
    try:
        builds = builds_of(suspect)
    except BuildGone as error:
        return inconclusive(str(error)), {}
    nodes = [node.name for node in cluster.nodes]
    removed = sorted(set(suspect.nodes) - set(nodes))
    if removed:
        return inconclusive(f"{cluster.name} has no {', '.join(removed)} any more"), {}
    begun = spool.comparison(request.comparison_id).run()
    if begun is not None:
        unfit = nodes_out_from_json(begun["request"]["unfit"])
    else:
        unfit = await unfit_nodes(context, suspect.bad.line)
    out = [sentences(unfit[node]) for node in suspect.nodes if node in unfit]
    if out:
        return inconclusive("; ".join(out)), {}

    async def measure(suffix: str, out: NodesOut) -> Document:
        plan = _plan(request, night, context, builds, suffix, out)
        kept = {"alert_id": suspect.alert_id, "unfit": nodes_out_to_json(unfit)}
        return await run_comparison(plan, spool, kept, request.requested_by, context, observer)

    others = [node for node in nodes if node not in suspect.nodes]
    try:
        here = await measure("", unwanted(others, "others"))
    except EnvironmentUnavailable as error:
        return inconclusive(f"one of the builds cannot be had any more: {error}"), {}
    there: Document | str | None = None
    # Where time ran out on the night's own nodes, none is left for others.
    if here["complete"] and len(set(others) - unfit.keys()) >= len(suspect.nodes):
        try:
            there = await measure(ELSEWHERE, unfit | unwanted(suspect.nodes, "it"))
        except UserError as error:
            # What the night's own nodes say stands without it.
            there = str(error)
    found = confirmation(suspect, builds, here, there)
    return found, {"here": here, "there": there, "pairs": builds is not None}


def unwanted(nodes: Iterable[str], measured_on: str) -> NodesOut:
    """Return nodes that are left out because the night measured elsewhere: on `others`, say."""
    code = ReasonCode.NIGHT_MEASURED_ON
    return {
        node: left_out_because(node, Reason(code, node, observed=measured_on)) for node in nodes
    }


def _plan(
    request: ConfirmRequest,
    night: RunPlan,
    context: ExperimentContext,
    builds: tuple[Build, Build] | None,
    suffix: str,
    out: NodesOut,
) -> ComparisonPlan:
    suspect = request.suspect
    case = next(
        each.planned.case for each in night.cases if each.planned.case_id == suspect.case_id
    )
    # The builds name the environment: a prefix that the site has added since does not.
    environments = context.cluster.environments
    paths = {k: v for k, v in environments.paths.items() if k != case.framework}
    environments = dataclasses.replace(environments, paths=paths)
    rounds_here, rounds_elsewhere = rounds_of(builds is not None)
    plan = plan_comparison(
        dataclasses.replace(
            context,
            suite=dataclasses.replace(context.suite, cases=(case,), protocol=night.protocol),
            cluster=dataclasses.replace(context.cluster, environments=environments),
        ),
        builds or (suspect.bad, suspect.bad),
        comparison_id=request.comparison_id + suffix,
        rounds=rounds_elsewhere if suffix else rounds_here,
        min_effect=smallest_effect(suspect, night.policy.clear_change, has_two=builds is not None),
        seed=_SEED,
        left_out=out,
    )
    (compared,) = plan.cases
    if compared.jobs[Arm.B].definition_digest != suspect.definition_digest:
        raise UserError(
            f"{suspect.case_id} is defined otherwise now than it was in {suspect.run_id}"
        )
    if not suffix and {*compared.nodes} != {*suspect.nodes}:
        raise UserError(
            f"{suspect.case_id} would be placed on {', '.join(compared.nodes)}, and the night "
            f"measured on {', '.join(suspect.nodes)}"
        )
    return plan


# --- the outcome: pure --------------------------------------------------------------------


def smallest_effect(suspect: SuspectedRegression, min_change: float, *, has_two: bool) -> float:
    """Return the fall that an interval has to lie beyond, as a ratio less one: .015 for 1.5 %.

    Two builds in one round share the hour, so a small part of the fall is real as well, from the
    suite's smallest change on. One build against a level of earlier nights does not: half way
    separates the levels best.
    """
    half = -math.log(suspect.value / suspect.baseline) / 2
    bound = min(half, -math.log1p(-min_change)) if has_two else half
    return math.expm1(bound)


def decide(low: float | None, high: float | None, effect: float) -> ConfirmationResult:
    """Return what an interval of a ratio means by `smallest_effect`; None: too few rounds."""
    if low is None or high is None:
        return ConfirmationResult.INCONCLUSIVE
    bound = 1 / (1 + effect)
    if high < bound:
        return ConfirmationResult.CONFIRMED
    return ConfirmationResult.NOT_CONFIRMED if low > bound else ConfirmationResult.INCONCLUSIVE


def confirmation(
    suspect: SuspectedRegression,
    builds: tuple[Build, Build] | None,
    here: Document,
    there: Document | str | None,
) -> Confirmation:
    """Return the outcome by the night's own nodes; its sentence adds what other nodes said.

    `builds` are the last good and the night's; None where they are the same. `there` is the result
    of other nodes, why there is none, or None where the cluster has no others.
    """
    found = _read(suspect, builds, here)
    if builds is None:
        what = (
            f"Nothing of the framework changed since the last good night, so "
            f"{_label(suspect.bad, suspect.bad_version)} was measured again against the baseline "
            f"of {suspect.baseline:.4g}"
        )
    else:
        good, bad = builds
        what = (
            f"{_label(bad, suspect.bad_version)} beside {_label(good, suspect.good_version)}, "
            "interleaved"
        )
    if found.rounds < LEAST_ROUNDS:
        parts = [f"{what}: {_why_few(here)}"]
    else:
        lost = f"where the night lost {-suspect.change:.1%}"
        parts = [f"{what}: {_figures(found, here)}, {lost}: {_words(found.outcome, builds)}"]
    if isinstance(there, str):
        parts.append(f"on other nodes: {there}")
    elif there is not None:
        other = _read(suspect, builds, there)
        parts.append(f"{_figures(other, there)}: {_words(other.outcome, builds)}")
    return dataclasses.replace(found, sentence="; ".join(parts) + ".")


def inconclusive(why: str) -> Confirmation:
    """Return the outcome where nothing could be measured."""
    return Confirmation(ConfirmationResult.INCONCLUSIVE, f"It could not be measured again: {why}")


def _read(
    suspect: SuspectedRegression, builds: tuple[Build, Build] | None, result: Document
) -> Confirmation:
    (row,) = result["cases"]
    effect = result["min_effect"]
    if builds is not None:
        ratio, low, high, n = row["ratio"], row["low"], row["high"], row["n"]
    else:
        launches = [each[arm] for each in row["rounds"] for arm in Arm]
        level = paired_statistics.estimate([v / suspect.baseline for v in launches], effect)
        ratio, low, high, n = level.ratio, level.low, level.high, level.n
    return Confirmation(decide(low, high, effect), "", ratio, low, high, n)


def _figures(found: Confirmation, result: Document) -> str:
    nodes = ", ".join(result["cases"][0]["nodes"])
    if found.ratio is None or found.low is None or found.high is None:
        return f"on {nodes} {_why_few(result)}"
    return (
        f"on {nodes} {found.ratio - 1:+.1%} ({found.low - 1:+.1%} to {found.high - 1:+.1%}, "
        f"n {found.rounds})"
    )


def _why_few(result: Document) -> str:
    row = result["cases"][0]
    return f"{row['n']} of {result['rounds']} rounds: {row['stopped'] or 'too few'}"


def _words(outcome: ConfirmationResult, builds: tuple[Build, Build] | None) -> str:
    if outcome is ConfirmationResult.CONFIRMED:
        return "the fall is there" if builds else "it is still down"
    if outcome is ConfirmationResult.NOT_CONFIRMED:
        return "the fall is not there" if builds else "the level is back"
    return "too uneven to tell"


def _label(build: Build, version: str | None) -> str:
    if build.source == "index":
        return f"{build.line} {build.version or version or 'locked'}"
    return f"{build.line} {build.location}" + (f" ({version})" if version else "")
