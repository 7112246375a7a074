"""Measures cases of a night with a reference build: both launched in turn, on the same nodes.

Each is a comparison of the night's runs, `<run_id>-ref<n>`, with the reference as A: a task that is
tried again continues after the last launch that has ended.
"""

import dataclasses

from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, MeasuredPair, Pair, PlannedPair
from nightbench.core.model.experiments import NIGHTBENCH, Experiment, ExperimentKind
from nightbench.core.run_plan import RunPlan
from nightbench.core.sentences import sentence
from nightbench.experiments.comparison import (
    ComparisonPlan,
    as_in_night,
    plan_comparison,
    refuse_other,
)
from nightbench.experiments.confirm import nodes_of_night
from nightbench.experiments.engine import ExperimentContext, Turn, run_comparison
from nightbench.experiments.record import Ended, ExperimentRecord
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.night.reference_plan import save_pairs
from nightbench.spool import RunSpool, Spool
from nightbench.warehouse.connection import Connect


async def measure_references(
    plan: RunPlan,
    spool: Spool,
    context: ExperimentContext,
    observer: ComparisonReporter,
    connect: Connect,
) -> list[MeasuredPair]:
    """Measure the pairs of a run's plan, one after the other, and keep them for its ingest.

    A case that cannot be measured is kept with the reason, and does not stop the others.

    Raises:
        asyncio.CancelledError: after the gang has been ended on the nodes.
    """
    run = spool.run(plan.run.run_id)
    found: list[MeasuredPair] = []
    where, by = (plan.run.suite, plan.run.cluster), plan.run.requested_by or NIGHTBENCH
    for number, pair in enumerate(plan.pairs, start=1):
        name = f"{run.run_id}-ref{number}"
        kept = {"run_id": run.run_id, "case_id": pair.case_id}
        experiment = Experiment(name, ExperimentKind.REFERENCE, kept, *where, by)
        record = ExperimentRecord(experiment, connect, observer.say)
        found.append(await _measure(pair, plan, run, Turn(record, spool, context, observer)))
        save_pairs(run, found)
    return found


async def _measure(pair: PlannedPair, night: RunPlan, run: RunSpool, turn: Turn) -> MeasuredPair:
    nothing = MeasuredPair(pair.case_id, pair.reference, pair.is_bridge)
    if pair.left_out is not None:
        return dataclasses.replace(nothing, why=sentence(pair.left_out))
    store = run.latest(pair.case_id)
    outcome, job = (store.outcome(), store.job()) if store else (None, None)
    if outcome is None or job is None or outcome["status"] != CaseStatus.OK:
        status = outcome["status"] if outcome else "never ended"
        return dataclasses.replace(nothing, why=f"the case itself was not measured: {status}")
    nodes = {node["name"] for node in job["nodes"]}
    experiment, record = turn.experiment, turn.record
    record.begin()
    try:
        planned = _plan(pair, experiment.name, night, nodes, turn.context)
        asked, by = experiment.request, experiment.requested_by
        result = await run_comparison(planned, asked, by, turn, record.note)
    except UserError as error:
        record.leave(Ended("failed", str(error)))
        return dataclasses.replace(nothing, why=str(error))
    record.leave(Ended("done", result=result))
    (row,) = result["cases"]
    few = f"{row['n']} of {pair.rounds} rounds: {row['stopped']}" if row["n"] < pair.rounds else ""
    return dataclasses.replace(
        nothing,
        pairs=tuple(Pair(each["b"], each["a"], each["order"]) for each in row["rounds"]),
        low=row["low"],
        high=row["high"],
        why=few,
    )


def _plan(
    pair: PlannedPair,
    comparison_id: str,
    night: RunPlan,
    nodes: set[str],
    context: ExperimentContext,
) -> ComparisonPlan:
    case = next(each.planned for each in night.cases if each.planned.case_id == pair.case_id)
    others = [node.name for node in context.cluster.nodes if node.name not in nodes]
    plan = plan_comparison(
        as_in_night(context, night, case.case),
        (pair.reference, case.build),
        comparison_id=comparison_id,
        rounds=pair.rounds,
        min_effect=night.policy.reported_from,
        # A new order each night, the same for each try: so no build always comes first.
        seed=night.run.started_at.toordinal(),
        left_out=nodes_of_night(others, "others"),
        kind=ExperimentKind.REFERENCE,
    )
    refuse_other(plan, night, case.definition_digest, sorted(nodes))
    return plan
