"""Where the time of two builds goes: the pair of a comparison once more, under a profiler.

Each case is launched once with A and once with B, by the engine of comparisons. After its window,
which counts for nothing here, each trainer trains some more steps under its line's profiler
(`benchmarks/profiling.py`) and reports them in its rank.json.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from upath import UPath

from nightbench.core.errors import UserError
from nightbench.core.model import JobSpec
from nightbench.experiments.ab import AbRequest, plan_ab
from nightbench.experiments.comparison import ComparedCase, ComparisonPlan, ended_launches
from nightbench.experiments.engine import ExperimentContext
from nightbench.experiments.experiment_spool import (
    COMPARISON,
    PROFILE,
    Document,
    read_request,
)
from nightbench.experiments.rounds import Arm
from nightbench.nodes import NodesOut
from nightbench.spool import CaseStore, RunSpool, Spool, read_json, write_json

STEPS_VARIABLE = "NIGHTBENCH_PROFILE_STEPS"
RESULT_SCHEMA = "nightbench.profile-result/1"
SHOWN = 10
"""Operators with the largest difference."""

Profile = Mapping[str, Any]
"""`profile` of a rank.json."""


def request_of(spool: Spool, comparison_id: str, cases: Sequence[str]) -> AbRequest:
    """Return the request of a comparison as that of its profile: one round of some of its cases.

    Raises:
        UserError: there is no such comparison, or no person named its builds.
    """
    asked = read_request(spool.comparison(comparison_id), COMPARISON)["request"]
    request = AbRequest.of(comparison_id, asked)
    return dataclasses.replace(request, rounds=1, cases=tuple(cases) or request.cases)


def plan_profile(
    request: AbRequest,
    profile_id: str,
    context: ExperimentContext,
    steps: int,
    left_out: NodesOut | None = None,
) -> ComparisonPlan:
    """Return the plan of a profile: that of one round, whose trainers report `steps` more steps.

    Raises:
        UserError: as of `plan_ab`; or a line's scripts are not ours to profile.
    """
    plan = plan_ab(request, profile_id, context, left_out)
    line = context.catalog.frameworks[plan.cases[0].case.framework]
    if line.commands:
        raise UserError(
            f"{plan.cases[0].case_id}: found a script that is not ours; Nightbench profiles the "
            "trainers of its framework lines. Let the script profile itself"
        )

    def profiled(job: JobSpec) -> JobSpec:
        return dataclasses.replace(job, env={**job.env, STEPS_VARIABLE: str(steps)})

    cases = tuple(
        dataclasses.replace(case, jobs={arm: profiled(job) for arm, job in case.jobs.items()})
        for case in plan.cases
    )
    return dataclasses.replace(plan, cases=cases, kind=PROFILE)


def saved_profile(spool: Spool, profile_id: str) -> Document | None:
    """Return what a profile found; None where there is no such profile, or it never ended."""
    found: Document | None = read_json(_file(spool.comparison(profile_id)))
    return found


def save_profile(folder: RunSpool, document: Document) -> None:
    """Keep what a profile found."""
    write_json(_file(folder), document)


def _file(folder: RunSpool) -> UPath:
    return folder.folder / "profile.json"


def profile_document(
    plan: ComparisonPlan, folder: RunSpool, of: str, stopped: str = ""
) -> Document:
    """Return what a profile found, from the launches that have ended."""
    return {
        "schema": RESULT_SCHEMA,
        "id": plan.comparison_id,
        "of": of,
        "suite": plan.suite.name,
        "cluster": plan.cluster.name,
        **{str(arm): build.build_id for arm, build in plan.builds.items()},
        "cases": [_case(case, folder, stopped) for case in plan.cases],
    }


def _case(case: ComparedCase, folder: RunSpool, stopped: str) -> Document:
    head: Document = {"case_id": case.case_id, "nodes": case.nodes}
    launches = ended_launches(folder, case.case_id)
    profiles: dict[Arm, list[Profile]] = {}
    for number, launch in enumerate(launches):
        if launch.status == "ok":
            profiles[launch.arm] = _profiles(folder.case(case.case_id, number))
    for arm in Arm:
        if not profiles.get(arm):
            ended = [each.why for each in launches if each.arm is arm and each.status != "ok"]
            why = ended[-1] if ended else stopped or "its trainers reported none"
            return {**head, "why": f"{arm.upper()} has no profile: {why}", "operators": []}
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


def _profiles(store: CaseStore) -> list[Profile]:
    """Return the profiles of all trainers of a launch."""
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
