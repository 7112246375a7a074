"""Measures the nights of a drill."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping

from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, JobSpec, RunKind
from nightbench.core.run_plan import RunPlan, make_plan
from nightbench.experiments.drills import (
    Drill,
    definition_of,
    folder_of,
    known_of,
    nights_of,
    run_id_of,
    suite_of,
)
from nightbench.gang import Shipment, SshTarget, direct
from nightbench.gang.events import OnEvent
from nightbench.spool import RunSpool, Spool
from nightbench.spool.plans import mark_ended, store_plan

KNOB = "NIGHTBENCH_DRILL_SLEEP_S"
"""Of the job's environment; ranks refuse it in a run whose id does not begin with `drill-`."""


def measure_night(
    drill: Drill,
    spool: Spool,
    number: int,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    on_event: OnEvent,
    refresh: Callable[[], None],
) -> None:
    """Measure a night, unless it has been; one that was cut goes on.

    Raises:
        KeyboardInterrupt: after the gang has been ended on the nodes.
        UserError: it brought no result; it is measured anew when the drill goes on.
    """
    own = nights_of(spool, drill)
    folder = own.run(run_id_of(drill, number))
    if folder.run() is None or not (folder.run() or {}).get("ended_at"):
        sleep_s = _sleep(drill, spool, number)
        plan = _planned(drill, number, sleep_s, _generation(folder, drill.case_id))
        store_plan(plan, own)
        (came,) = direct.measure(plan.jobs, folder, targets, shipment, on_event, refresh)
        if came.status is not CaseStatus.OK:
            # The night is not over: whoever goes on measures it anew.
            raise UserError(
                f"night {number}: {came.case_id} {came.status}: {came.reason}. When that is mended "
                f"go on: nightbench drill --resume {drill.drill_id}"
            )
        mark_ended(folder)


def _generation(folder: RunSpool, case_id: str) -> int:
    """Of the next try: a cancelled one has its outcome, and nothing more is launched for it."""
    generations = folder.generations(case_id)
    if not generations:
        return 0
    outcome = folder.case(case_id, generations[-1]).outcome()
    return generations[-1] + (outcome is not None)


def _planned(drill: Drill, number: int, sleep_s: float, generation: int) -> RunPlan:
    plan = make_plan(
        suite_of(drill),
        drill.cluster,
        drill.catalog,
        run_kind=RunKind.DRILL,
        run_id=run_id_of(drill, number),
        started_at=drill.at(number),
    )
    definition = definition_of(drill)

    def drilled(job: JobSpec) -> JobSpec:
        env = {**job.env, KNOB: repr(sleep_s)} if sleep_s else job.env
        return dataclasses.replace(
            job, env=env, generation=generation, definition_digest=definition
        )

    cases = tuple(
        dataclasses.replace(
            each, planned=dataclasses.replace(each.planned, definition_digest=definition)
        )
        for each in plan.cases
    )
    return dataclasses.replace(plan, cases=cases, jobs=tuple(map(drilled, plan.jobs)))


def _sleep(drill: Drill, spool: Spool, number: int) -> float:
    """Seconds that each step of a night sleeps: nought before the slowdown, then always the same.

    The length follows from the steps of the nights before, and is kept.
    """
    if number < drill.first_slow:
        return 0.0
    folder = folder_of(spool, drill.drill_id)
    document = known_of(folder)
    if document["sleep_s"] is None:
        before = [
            step_s
            for night in range(1, drill.first_slow)
            for step_s in _steps_s(
                nights_of(spool, drill).run(run_id_of(drill, night)), drill.case_id
            )
        ]
        if not before:
            raise UserError(f"{drill.drill_id}: no night brought a result, so none can be slowed")
        step_s = statistics.median(before)
        document["sleep_s"] = step_s * drill.size / (1 - drill.size)
        folder.save_run(document)
    return float(document["sleep_s"])


def _steps_s(folder: RunSpool, case_id: str) -> list[float]:
    """Seconds of a step, as each trainer of each repeat of a night saw it."""
    store = folder.latest(case_id)
    if store is None:
        return []
    windows = [
        process["summary"]["window"]
        for repeat in store.repeats()
        for result in store.results(repeat).values()
        for process in result["processes"]
        if process.get("summary")
    ]
    return [window["wall_s"] / window["steps"] for window in windows if window["steps"]]
