"""A comparison of two builds: its plan, its launches in the spool, and its result.

    <spool>/comparisons/<id>/run.json                  the request
    <spool>/comparisons/<id>/cases/<case_id>/g<n>/     the n-th launch of the case, as a run has it
        launch.json                                    its round, its build and its throughput
    <spool>/comparisons/<id>/result.json               the result, see `make_result`

Each launch is a job of one repeat with its own id (`<id>/<case_id>/g<n>`). The next launch depends
only on those that have ended, so that another process can resume. No launch of a comparison enters
the warehouse, and no baseline contains it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nightbench.core.budget import CaseHistory
from nightbench.core.capabilities import refuse_broken
from nightbench.core.documents import from_document, to_document
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Build,
    Case,
    Catalog,
    Cluster,
    JobSpec,
    RunKind,
    Suite,
    WorkloadInfo,
)
from nightbench.core.model.experiments import ExperimentKind
from nightbench.core.placement import TooFewNodes, place
from nightbench.core.run_plan import CasePlan, RunPlan, resolve
from nightbench.core.sentences import sentences
from nightbench.core.variants import with_nodes_for
from nightbench.detection.paired_training import compare_training, traits_of
from nightbench.experiments import paired_statistics, rounds
from nightbench.experiments.experiment_spool import Document, store_request
from nightbench.experiments.paired_statistics import RatioEstimate
from nightbench.experiments.rounds import Arm, Launch, LaunchOrder
from nightbench.nodes import NodesOut, nodes_out_to_json
from nightbench.spool import CaseStore, RunSpool, Spool, read_json, utc_now, write_json

RESULT_SCHEMA = "nightbench.comparison-result/1"


@dataclass(frozen=True)
class ComparedCase:
    """A case with the job of each build."""

    case: Case
    jobs: Mapping[Arm, JobSpec]
    order: LaunchOrder
    workload: WorkloadInfo

    @property
    def case_id(self) -> str:
        """The case's slug."""
        return self.case.case_id

    @property
    def unit(self) -> str:
        """Unit of work."""
        return self.workload.unit

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes that both builds run on."""
        return [node.name for node in self.jobs[Arm.A].nodes]

    def launch(self, arm: Arm, number: int) -> JobSpec:
        """Return the job of the n-th launch of the case, from 0."""
        return dataclasses.replace(self.jobs[arm], generation=number)


@dataclass(frozen=True)
class ComparisonPlan:
    """The compared builds and cases, and the method."""

    comparison_id: str
    suite: Suite
    cluster: Cluster
    cases: tuple[ComparedCase, ...]
    rounds: int
    min_effect: float
    seed: int
    left_out: NodesOut
    kind: ExperimentKind = ExperimentKind.COMPARE
    """Kind of its experiment."""

    @property
    def builds(self) -> Mapping[Arm, Build]:
        """The two builds, as they are resolved for the cluster."""
        return {arm: self.cases[0].jobs[arm].build for arm in Arm}

    def expecting(self, launch_s: float) -> ComparisonPlan:
        """Return the plan whose launches are each expected to take so many seconds."""
        cases = []
        for case in self.cases:
            jobs = {
                arm: dataclasses.replace(job, expected_repeat_s=launch_s)
                for arm, job in case.jobs.items()
            }
            cases.append(dataclasses.replace(case, jobs=jobs))
        return dataclasses.replace(self, cases=tuple(cases))


@dataclass(frozen=True)
class ComparisonContext:
    """The input for the plan of a comparison."""

    suite: Suite
    """With the cases to compare, and no others of the builds' line."""
    cluster: Cluster
    """Both builds run on the same nodes of it."""
    catalog: Catalog
    deadline: datetime | None = None
    """No launch begins that cannot end by then."""
    past: Mapping[str, CaseHistory] = dataclasses.field(default_factory=dict)
    """case_id -> how long it took before; empty without a deadline."""


def plan_comparison(
    context: ComparisonContext,
    builds: tuple[Build, Build],
    *,
    comparison_id: str,
    rounds: int,
    min_effect: float,
    seed: int,
    left_out: NodesOut | None = None,
    kind: ExperimentKind = ExperimentKind.COMPARE,
) -> ComparisonPlan:
    """Return the plan that compares two builds, A and B, on the suite's cases of their line.

    Raises:
        UserError: the builds are of two lines, there is no case of it, or the cluster cannot
            run one.
    """
    suite, cluster = context.suite, context.cluster
    line = builds[0].line
    if builds[1].line != line:
        raise UserError(
            f"builds: found {line} and {builds[1].line}; expected two builds of one framework line"
        )
    cases = [case for case in suite.cases if case.framework == line]
    if not cases:
        have = ", ".join(sorted({case.framework for case in suite.cases}))
        raise UserError(f"suite {suite.name}: found no case of {line} to compare; it has {have}")
    context = dataclasses.replace(context, catalog=context.catalog.with_commands(suite))
    out = dict(left_out or {})
    compared = tuple(
        ComparedCase(
            case,
            _jobs(case, builds, context, comparison_id, out),
            LaunchOrder.seeded(rounds, seed, case.case_id),
            context.catalog.workloads[case.workload],
        )
        for case in cases
    )
    return ComparisonPlan(
        comparison_id, suite, cluster, compared, rounds, min_effect, seed, out, kind
    )


def _jobs(
    case: Case,
    builds: tuple[Build, Build],
    context: ComparisonContext,
    comparison_id: str,
    left_out: NodesOut,
) -> dict[Arm, JobSpec]:
    suite, cluster, catalog = context.suite, context.cluster, context.catalog
    there = cluster
    for build in builds:
        chosen = {**suite.builds, case.framework: build}
        there = with_nodes_for(case, catalog.frameworks[case.framework], there, chosen)
    try:
        nodes, processes = place(case, there, catalog.roles_of(case), left_out.keys())
    except TooFewNodes as error:
        why = "; ".join(map(sentences, left_out.values()))
        raise UserError(f"{case.case_id}: {error} ({why})") from error
    jobs = {}
    for arm, build in zip(Arm, builds, strict=True):
        with_build = dataclasses.replace(suite, builds={**suite.builds, case.framework: build})
        refuse_broken([case], with_build, cluster, catalog)
        job = resolve(case, with_build, cluster, catalog, comparison_id, deadline=context.deadline)
        known = context.past.get(case.case_id, CaseHistory()).of(job.definition_digest)
        job = dataclasses.replace(
            job, nodes=nodes, processes=processes, expected_repeat_s=known.repeat_s
        )
        jobs[arm] = _single_repeat(job)
    return jobs


def as_in_night(context: ComparisonContext, night: RunPlan, case: Case) -> ComparisonContext:
    """Return the context of a comparison that measures one case of a night as that did."""
    # The two builds need their own environments: a site's prefix must not replace both.
    environments = context.cluster.environments
    paths = {k: v for k, v in environments.paths.items() if k != case.framework}
    environments = environments.model_copy(update={"paths": paths})
    return dataclasses.replace(
        context,
        suite=dataclasses.replace(context.suite, cases=(case,), protocol=night.protocol),
        cluster=dataclasses.replace(context.cluster, environments=environments),
    )


def refuse_other(
    plan: ComparisonPlan, night: RunPlan, definition_digest: str, nodes: Collection[str] | None
) -> None:
    """Refuse a plan that would not measure its case as the night has planned it.

    Raises:
        UserError: it is defined otherwise, or would be placed on other nodes than these.
    """
    (compared,) = plan.cases
    if compared.jobs[Arm.B].definition_digest != definition_digest:
        raise UserError(f"{compared.case_id} is defined differently than in {night.run.run_id}")
    if nodes is not None and {*compared.nodes} != {*nodes}:
        raise UserError(
            f"{compared.case_id} would run on {', '.join(compared.nodes)}, but the night measured "
            f"the case on {', '.join(nodes)}"
        )


def _single_repeat(job: JobSpec) -> JobSpec:
    """Return the job of one launch: its round replaces a disturbed one, not another repeat."""
    paths = {k: v for k, v in job.environments.paths.items() if k != job.build.line}
    return dataclasses.replace(
        job,
        protocol=dataclasses.replace(job.protocol, repeats=1, min_repeats=None, confidence=None),
        neighbours=job.neighbours.model_copy(update={"budget": 0}),
        # The two builds need their own environments: a site's prefix must not replace both.
        environments=job.environments.model_copy(update={"paths": paths}),
    )


# --- in the spool -------------------------------------------------------------------------


def store_comparison(
    plan: ComparisonPlan, spool: Spool, request: Mapping[str, Any], requested_by: str
) -> RunSpool:
    """Write the request before anything is launched, and return the comparison's folder.

    `request` holds whatever the caller needs to make the same plan again.

    Raises:
        UserError: it was begun with other cases, nodes, builds or code.
    """
    folder = spool.comparison(plan.comparison_id)
    store_request(
        folder,
        plan.kind,
        request,
        _identity(plan),
        requested_by,
        suite=plan.suite.name,
        cluster=plan.cluster.name,
        left_out=nodes_out_to_json(plan.left_out),
    )
    return folder


def _identity(plan: ComparisonPlan) -> Document:
    return {
        "builds": {str(arm): dataclasses.asdict(build) for arm, build in plan.builds.items()},
        "cases": {
            each.case_id: {
                "definition_digest": each.jobs[Arm.A].definition_digest,
                "nodes": each.nodes,
            }
            for each in plan.cases
        },
        "code": plan.cases[0].jobs[Arm.A].code_digest,
        "rounds": plan.rounds,
        "min_effect": plan.min_effect,
        "seed": plan.seed,
    }


def ended_launches(folder: RunSpool, case_id: str) -> list[Launch]:
    """Return the launches of a case that have ended, in their order."""
    launches: list[Launch] = []
    while (found := read_json(_launch_file(folder.case(case_id, len(launches))))) is not None:
        launches.append(from_document(Launch, found))
    return launches


def save_launch(store: CaseStore, launch: Launch) -> None:
    """Store how a launch ended; no process continues with it afterwards."""
    write_json(_launch_file(store), {**to_document(launch), "at": utc_now()})


def _launch_file(store: CaseStore) -> Any:
    return store.folder / "launch.json"


# --- the result ---------------------------------------------------------------------------


def make_result(plan: ComparisonPlan, folder: RunSpool, stopped: str | None = None) -> Document:
    """Return the document of result.json, computed from the launches that have ended.

    `stopped` says why it ended early, if the launches do not show it.
    """
    level = paired_statistics.family_level(len(plan.cases))
    rows: list[Document] = []
    estimates: list[RatioEstimate] = []
    for case in plan.cases:
        launches = ended_launches(folder, case.case_id)
        done = rounds.progress(case.order, launches)
        ratios = [each.ratio for each in done.rounds]
        found = paired_statistics.estimate(ratios, plan.min_effect, level, plan.seed)
        estimates.append(found)
        rows.append(
            {
                "case_id": case.case_id,
                "unit": case.unit,
                "nodes": case.nodes,
                **dataclasses.asdict(found),
                **_training(case, launches),
                "order": [_order(each.order) for each in done.rounds],
                "rounds": [
                    {**dataclasses.asdict(each), "order": _order(each.order), "ratio": each.ratio}
                    for each in done.rounds
                ],
                "dropped": [dataclasses.asdict(launch) for launch in done.dropped],
                "complete": len(done.rounds) >= plan.rounds,
                "stopped": done.stopped or (stopped if done.next is not None else None),
            }
        )
    combined = paired_statistics.combine(estimates, plan.min_effect)
    return {
        "schema": RESULT_SCHEMA,
        "id": plan.comparison_id,
        "verdict": str(paired_statistics.overall([each.verdict for each in estimates])),
        "a": _build(plan.builds[Arm.A]),
        "b": _build(plan.builds[Arm.B]),
        "suite": plan.suite.name,
        "cluster": plan.cluster.name,
        "shared": plan.cluster.shared,
        "run_kind": str(RunKind.CONFIRM),
        "rounds": plan.rounds,
        "min_effect": plan.min_effect,
        "seed": plan.seed,
        "started_at": (folder.run() or {}).get("started_at"),
        "ended_at": utc_now(),
        "complete": all(row["complete"] or row["stopped"] for row in rows) and stopped is None,
        "cases": rows,
        "combined": dataclasses.asdict(combined.estimate) if combined.estimate else None,
        "not_combined": combined.why_not,
    }


def _training(case: ComparedCase, launches: Sequence[Launch]) -> Document:
    """Return whether B trains as A does, and the losses of their launches."""
    job, builds = case.jobs[Arm.A], {job.build for job in case.jobs.values()}
    a, b = ([each.losses for each in launches if each.arm is arm and each.losses] for arm in Arm)
    traits = traits_of(CasePlan.of(job, case.workload), job.protocol)
    found = compare_training(a, b, traits, is_one_build=len(builds) == 1)
    return {
        "training": to_document(found),
        "losses": to_document(
            {"a": [each.figures for each in a], "b": [each.figures for each in b]}
        ),
    }


def _order(arms: Sequence[Arm]) -> str:
    return "".join(arm.upper() for arm in arms)


def _build(build: Build) -> Document:
    return {**dataclasses.asdict(build), "build_id": build.build_id}


def stopped_because(result: Document) -> str | None:
    """Return why a comparison ended early; None if it is complete."""
    if result["complete"]:
        return None
    return next((case["stopped"] for case in result["cases"] if case["stopped"]), "")


def save_result(folder: RunSpool, document: Mapping[str, Any]) -> None:
    """Store the result."""
    write_json(folder.folder / "result.json", document)


def saved_result(folder: RunSpool) -> Document | None:
    """Return the stored result; None while there is none."""
    return read_json(folder.folder / "result.json")
