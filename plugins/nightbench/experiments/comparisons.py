"""The plan of a comparison of two builds, and its launches in the spool.

    <spool>/comparisons/<id>/run.json                  what was asked for
    <spool>/comparisons/<id>/cases/<case_id>/g<n>/     the n-th launch of the case, as a run has it
        half.json                                      its round, its build and its figure
    <spool>/comparisons/<id>/result.json               the answer, see `answers`

Each launch is a job of one repeat under ids of its own (`<id>/<case_id>/g<n>`). Which one comes
next follows from those that have ended, so that another process can go on. Nothing of it is in
the warehouse, and no baseline knows of it.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nightbench.core.budget import CaseHistory
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Build,
    Case,
    Catalog,
    Cluster,
    JobSpec,
    Node,
    Process,
    Role,
    RunKind,
    Suite,
    WorkloadInfo,
)
from nightbench.core.placement import NodesAway, place
from nightbench.core.plan import resolve
from nightbench.experiments.rounds import Half, Schedule, Side
from nightbench.spool import CaseStore, RunSpool, Spool, read_json, utc_now, write_json

SCHEMA = "nightbench.comparison/1"


@dataclass(frozen=True)
class ComparedCase:
    """A case with the job of either build; every launch is one of them under a number."""

    case: Case
    jobs: Mapping[Side, JobSpec]
    schedule: Schedule
    workload: WorkloadInfo

    @property
    def case_id(self) -> str:
        """The case's slug."""
        return self.case.case_id

    @property
    def unit(self) -> str:
        """Unit of work."""
        return self.workload.unit

    def launch(self, side: Side, number: int) -> JobSpec:
        """The job of a launch."""
        return dataclasses.replace(self.jobs[side], generation=number)


@dataclass(frozen=True)
class ComparisonPlan:
    """What is compared, and how."""

    comparison_id: str
    suite: Suite
    cluster: Cluster
    cases: tuple[ComparedCase, ...]
    rounds: int
    min_effect: float
    seed: int
    left_out: Mapping[str, str]
    """Node -> why nothing is measured on it."""

    @property
    def builds(self) -> Mapping[Side, Build]:
        """The two builds, as they are resolved for the cluster."""
        return {side: self.cases[0].jobs[side].build for side in Side}


def new_comparison_id(now: datetime) -> str:
    """Readable, sortable and unique: `ab-20261121T010203-9f3a`."""
    return f"ab-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def plan_comparison(
    suite: Suite,
    cluster: Cluster,
    catalog: Catalog,
    builds: tuple[Build, Build],
    *,
    comparison_id: str,
    rounds: int,
    min_effect: float,
    seed: int,
    deadline: datetime | None = None,
    left_out: Mapping[str, str] | None = None,
    past: Mapping[str, CaseHistory] | None = None,
) -> ComparisonPlan:
    """Resolve the cases of a suite that are of the builds' line, once for each build.

    Args:
        suite: with the cases to compare, and no others of the line.
        cluster: where; both builds run on the same nodes.
        catalog: what can be run.
        builds: A and B, of one framework line.
        comparison_id: of the jobs.
        rounds: that count, of each case.
        min_effect: the smallest effect that matters, .01 for 1 %.
        seed: says which build begins.
        deadline: no launch that cannot end by then.
        left_out: node -> why nothing is measured on it.
        past: how long repeats take, for the deadline.

    Raises:
        UserError: the builds are of two lines, there is no case of it, or the cluster cannot
            run one.
    """
    line = builds[0].line
    if builds[1].line != line:
        raise UserError(
            f"builds: found {line} and {builds[1].line}; expected two builds of one framework line"
        )
    cases = [case for case in suite.cases if case.framework == line]
    if not cases:
        have = ", ".join(sorted({case.framework for case in suite.cases}))
        raise UserError(f"suite {suite.name}: no case of {line} is left to compare; it has {have}")
    compared = []
    for case in cases:
        roles = catalog.frameworks[line].roles_of(case.strategy)
        nodes, processes = _place(case, cluster, roles, left_out or {})
        jobs = {}
        for side, build in zip(Side, builds, strict=True):
            of_side = dataclasses.replace(suite, builds={**suite.builds, line: build})
            job = resolve(case, of_side, cluster, catalog, comparison_id, deadline=deadline)
            usual = (past or {}).get(case.case_id, CaseHistory()).of(job.definition_digest).repeat_s
            jobs[side] = _single(
                dataclasses.replace(job, nodes=nodes, processes=processes, expected_repeat_s=usual)
            )
        schedule = Schedule.seeded(rounds, seed, case.case_id)
        compared.append(ComparedCase(case, jobs, schedule, catalog.workloads[case.workload]))
    return ComparisonPlan(
        comparison_id,
        suite,
        cluster,
        tuple(compared),
        rounds,
        min_effect,
        seed,
        dict(left_out or {}),
    )


def _place(
    case: Case, cluster: Cluster, roles: Sequence[Role], left_out: Mapping[str, str]
) -> tuple[tuple[Node, ...], tuple[Process, ...]]:
    try:
        return place(case, cluster, roles, left_out.keys())
    except NodesAway as error:
        why = "; ".join(f"{node}: {reason}" for node, reason in left_out.items())
        raise UserError(f"{case.case_id}: {error} ({why})") from error


def _single(job: JobSpec) -> JobSpec:
    """The job of one launch: a disturbed one is made good for by its whole round."""
    paths = {k: v for k, v in job.environments.paths.items() if k != job.build.line}
    return dataclasses.replace(
        job,
        protocol=dataclasses.replace(job.protocol, repeats=1, min_repeats=None, confidence=None),
        neighbours=dataclasses.replace(job.neighbours, budget=0),
        # The build says which environment: a prefix of the site must not stand for both.
        environments=dataclasses.replace(job.environments, paths=paths),
    )


# --- in the spool -------------------------------------------------------------------------


def store_comparison(
    plan: ComparisonPlan, spool: Spool, asked: Mapping[str, Any], requested_by: str
) -> RunSpool:
    """Write what was asked for, before anything is launched; the same may be stored again.

    Args:
        plan: the comparison.
        spool: where.
        asked: whatever the caller needs to make the same plan again.
        requested_by: who asked for it.

    Raises:
        UserError: it was begun with other cases, nodes, builds or code: its rounds would not be
            comparable.
    """
    folder = spool.comparison(plan.comparison_id)
    known = folder.run() or {}
    identity = _identity(plan)
    if known and known.get("identity") != identity:
        was, now = known.get("identity") or {}, identity
        differs = ", ".join(sorted(k for k in {*was, *now} if was.get(k) != now.get(k)))
        raise UserError(
            f"{plan.comparison_id}: {differs} changed since it was begun; rounds before and after "
            "cannot be compared. Begin a new one"
        )
    document = {
        "started_at": utc_now(),
        **known,
        "schema": SCHEMA,
        "run_kind": str(RunKind.CONFIRM),
        "suite": plan.suite.name,
        "cluster": plan.cluster.name,
        "requested_by": known.get("requested_by", requested_by),
        "asked": dict(asked),
        "left_out": dict(plan.left_out),
        "identity": identity,
    }
    document.pop("ended_at", None)
    folder.save_run(document)
    return folder


def _identity(plan: ComparisonPlan) -> dict[str, Any]:
    """What must not change between the rounds, as JSON."""
    job = plan.cases[0].jobs[Side.A]
    return {
        "builds": {str(side): dataclasses.asdict(build) for side, build in plan.builds.items()},
        "cases": {
            each.case_id: {
                "definition_digest": each.jobs[Side.A].definition_digest,
                "nodes": [node.name for node in each.jobs[Side.A].nodes],
            }
            for each in plan.cases
        },
        "code": job.code_digest,
        "rounds": plan.rounds,
        "min_effect": plan.min_effect,
        "seed": plan.seed,
    }


def known_of(folder: RunSpool) -> dict[str, Any]:
    """Return run.json: `asked` is what the caller of `store_comparison` had it keep.

    Raises:
        UserError: there is no such comparison.
    """
    document = folder.run()
    if document is None or document.get("schema") != SCHEMA:
        have = ", ".join(path.name for path in _known(folder)) or "none"
        raise UserError(
            f'comparison: found "{folder.run_id}", which is not in the spool; it has {have}'
        )
    return document


def _known(folder: RunSpool) -> list[Any]:
    parent = folder.folder.parent
    return sorted(parent.iterdir(), key=lambda path: path.name) if parent.exists() else []


def halves(folder: RunSpool, case_id: str) -> list[Half]:
    """The launches of a case that have ended, in their order."""
    found: list[Half] = []
    while (document := read_json(_half_file(folder.case(case_id, len(found))))) is not None:
        found.append(
            Half(
                document["round"],
                Side(document["side"]),
                document["status"],
                document["throughput"],
                document["reason"],
            )
        )
    return found


def save_half(store: CaseStore, half: Half) -> None:
    """Say how a launch ended; from then on it is over for every process."""
    write_json(store.folder / "half.json", {**dataclasses.asdict(half), "at": utc_now()})


def _half_file(store: CaseStore) -> Any:
    return store.folder / "half.json"
