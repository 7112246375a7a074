"""Where the time of two builds goes: the pair of a comparison once more, under a profiler.

Each case is launched once with A and once with B, by the engine of comparisons. After its window,
which counts for nothing here, each trainer trains some more steps under its line's profiler
(`benchmarks/profiling.py`) and reports them in its rank.json.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from upath import UPath

from nightbench.config.experiment_requests import CompareRequest
from nightbench.core.errors import UserError
from nightbench.core.model import Catalog, JobSpec
from nightbench.core.model.experiments import ExperimentKind
from nightbench.experiments.compare import plan_compare
from nightbench.experiments.comparison import (
    ComparedCase,
    ComparisonPlan,
    ended_launches,
    saved_result,
    stopped_because,
)
from nightbench.experiments.engine import ExperimentContext, Turn, run_comparison, unfit_nodes
from nightbench.experiments.experiment_spool import Document, is_cancelled, read_request
from nightbench.experiments.record import Ended
from nightbench.experiments.rounds import Arm, Launch
from nightbench.nodes import NodesOut, nodes_out_from_json
from nightbench.spool import CaseStore, RunSpool, Spool, read_json, write_json

STEPS_VARIABLE = "NIGHTBENCH_PROFILE_STEPS"
STEPS = 10
RESULT_SCHEMA = "nightbench.profile-result/1"
SHOWN = 10
"""Operators with the largest difference."""

Profile = Mapping[str, Any]
"""`profile` of a rank.json."""


def request_of(spool: Spool, comparison_id: str, cases: Sequence[str]) -> CompareRequest:
    """Return the request of a comparison as that of its profile: one round of some of its cases.

    Raises:
        UserError: there is no such comparison.
    """
    folder = spool.comparison(comparison_id)
    asked = (folder.run() or {}).get("request", {})
    if "a" not in asked:  # it belongs to an alert or a night, or is no comparison
        asked = read_request(folder, ExperimentKind.COMPARE)["request"]
    request = CompareRequest.of(asked)
    return dataclasses.replace(request, rounds=1, cases=tuple(cases) or request.cases)


def refuse_unprofiled(line: str, catalog: Catalog) -> None:
    """Refuse a line that runs scripts of other programs.

    Raises:
        UserError: the line runs such scripts.
    """
    if line in catalog.frameworks and catalog.frameworks[line].commands:
        raise UserError(
            f"{line}: found scripts of another program; expected trainers of a framework line. "
            "Profile the script with its own tools"
        )


def _plan(
    request: CompareRequest,
    profile_id: str,
    context: ExperimentContext,
    steps: int,
    left_out: NodesOut,
) -> ComparisonPlan:
    """Return the plan of one round, whose trainers report `steps` more steps."""
    plan = plan_compare(request, profile_id, context, left_out, ExperimentKind.PROFILE)
    refuse_unprofiled(plan.cases[0].case.framework, context.catalog)

    def profiled(job: JobSpec) -> JobSpec:
        return dataclasses.replace(job, env={**job.env, STEPS_VARIABLE: str(steps)})

    cases = tuple(
        dataclasses.replace(case, jobs={arm: profiled(job) for arm, job in case.jobs.items()})
        for case in plan.cases
    )
    return dataclasses.replace(plan, cases=cases)


async def measure_profile(turn: Turn) -> Ended:
    """Launch what is missing of the profile of a comparison: some of its cases, for some steps.

    It is stored when it has ended or was cancelled; another turn continues what ran out of time.

    Raises:
        UserError: as of `run_comparison` and `plan_compare`; or `refuse_unprofiled`.
    """
    experiment, folder, context, record = turn.experiment, turn.folder, turn.context, turn.record
    of, asked = experiment.request["of"], experiment.request
    cases = asked.get("cases") or _with_rounds(turn.spool, of)
    request, steps = request_of(turn.spool, of, cases), asked.get("steps", STEPS)
    begun = folder.run()
    if begun is None:
        _plan(request, experiment.name, context, steps, {})  # before nodes are examined
        left_out = await unfit_nodes(turn, request.a.partition("=")[0])
    else:
        left_out = nodes_out_from_json(begun["left_out"])
    plan = _plan(request, experiment.name, context, steps, left_out)
    kept = {**dataclasses.asdict(request), "of": of, "steps": steps}
    result = await run_comparison(plan, kept, experiment.requested_by, turn, record.note)
    document = _document(plan, folder, of, result)
    if result["complete"] or is_cancelled(folder):
        await asyncio.to_thread(write_json, _file(folder), document)
    state, why = record.finished(folder, stopped_because(result))
    why = why or not_profiled(document)
    return Ended(state, why, None if state == "queued" else summary_of(document))


def _with_rounds(spool: Spool, comparison_id: str) -> list[str]:
    result = saved_result(spool.comparison(comparison_id)) or {"cases": ()}
    cases = [case["case_id"] for case in result["cases"] if case["n"]]
    if not cases:
        raise UserError("profile: no case has a round of both builds")
    return cases


def not_profiled(document: Document) -> str:
    """Return why cases have no profile: a line for everybody, then all of it; or nothing."""
    lacking = [case for case in document["cases"] if case["why"]]
    if not lacking:
        return ""
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    whole = (f"{case['case_id']}: {case['why']}" for case in lacking)
    head = f"no profile of {lacking[0]['case_id']}{more}: {lacking[0]['kind']}"
    return "\n".join((head, *whole))


def summary_of(document: Document) -> Document:
    """Return what of a profile a result keeps: its id, and by case what differs most."""
    keys = ("case_id", "why", "kind", "profiler", "steps", "ranks", "a_step_s", "b_step_s")
    return {
        "id": document["id"],
        "cases": [
            {**{key: case[key] for key in keys if key in case}}
            | {"operators": case["operators"][:SHOWN]}
            for case in document["cases"]
        ],
    }


def saved_profile(spool: Spool, profile_id: str) -> Document | None:
    """Return what a profile found; None if there is no such profile, or it never ended."""
    return read_json(_file(spool.comparison(profile_id)))


def _file(folder: RunSpool) -> UPath:
    return folder.folder / "profile.json"


def _document(plan: ComparisonPlan, folder: RunSpool, of: str, result: Document) -> Document:
    stopped = {row["case_id"]: row["stopped"] for row in result["cases"]}
    return {
        "schema": RESULT_SCHEMA,
        "id": plan.comparison_id,
        "of": of,
        "suite": plan.suite.name,
        "cluster": plan.cluster.name,
        **{str(arm): build.build_id for arm, build in plan.builds.items()},
        "cases": [_case(case, folder, stopped[case.case_id]) for case in plan.cases],
    }


def _case(case: ComparedCase, folder: RunSpool, stopped: str | None) -> Document:
    head: Document = {"case_id": case.case_id, "nodes": case.nodes}
    launches = ended_launches(folder, case.case_id)
    profiles: dict[Arm, list[Profile]] = {}
    for number, launch in enumerate(launches):
        if launch.status == "ok":
            profiles[launch.arm] = _profiles(folder.case(case.case_id, number))
    for arm in Arm:
        if not profiles.get(arm):
            lost = [each for each in launches if each.arm is arm and each.status != "ok"]
            why = lost[-1].why if lost else stopped or "its trainers reported none"
            why = f"{arm.upper()} has no profile: {why}"
            return {**head, "why": why, "kind": _kind(arm, lost), "operators": []}
    a, b = (mean_of(profiles[arm]) for arm in Arm)
    return {
        **head,
        "why": None,
        "profiler": profiles[Arm.A][0]["profiler"],
        "ranks": len(profiles[Arm.A]),
        "steps": profiles[Arm.A][0]["steps"],
        "a_step_s": a.step_s,
        "b_step_s": b.step_s,
        "operators": differences(a, b),
        "a_stacks": a.stacks,
        "b_stacks": b.stacks,
    }


def _kind(arm: Arm, lost: Sequence[Launch]) -> str:
    """Return why a build has no profile, without private details."""
    if not lost:
        return f"{arm.upper()} reported none"
    codes = dict.fromkeys(str(each.code).replace("_", " ") for each in lost[-1].reasons)
    return f"{arm.upper()}: {', '.join(codes) or lost[-1].status}"


def _profiles(store: CaseStore) -> list[Profile]:
    return [
        process["summary"]["profile"]
        for result in store.results(1).values()
        for process in result["processes"]
        if (process.get("summary") or {}).get("profile")
    ]


@dataclasses.dataclass(frozen=True)
class MeanProfile:
    """A step of a build, as the mean over steps and ranks."""

    step_s: float
    """Under the profiler, so longer than a measured one."""
    operators: Mapping[str, tuple[float, float]]
    """Name -> calls, and seconds in it alone."""
    stacks: Mapping[str, float]
    """Names with semicolons between -> seconds in the innermost alone."""


def mean_of(profiles: Sequence[Profile]) -> MeanProfile:
    """Return the mean step of some ranks."""
    share = 1 / sum(each["steps"] for each in profiles)
    operators: dict[str, tuple[float, float]] = {}
    stacks: dict[str, float] = {}
    for each in profiles:
        for name, calls, seconds in each["operators"]:
            known = operators.get(name, (0.0, 0.0))
            operators[name] = (known[0] + calls * share, known[1] + seconds * share)
        for stack, seconds in each["stacks"]:
            stacks[stack] = stacks.get(stack, 0.0) + seconds * share
    return MeanProfile(sum(each["wall_s"] for each in profiles) * share, operators, stacks)


def differences(a: MeanProfile, b: MeanProfile) -> list[Document]:
    """Return the operators of both, those whose seconds differ most first."""
    rows = []
    for name in a.operators.keys() | b.operators.keys():
        a_calls, a_s = a.operators.get(name, (0.0, 0.0))
        b_calls, b_s = b.operators.get(name, (0.0, 0.0))
        rows.append(
            {
                "name": name,
                "a_calls": a_calls,
                "b_calls": b_calls,
                "a_s": a_s,
                "b_s": b_s,
                "difference_s": b_s - a_s,
            }
        )
    return sorted(rows, key=lambda row: (-abs(row["difference_s"]), row["name"]))
