"""The plan of a comparison of two builds, its launches in the spool, and its answer.

    <spool>/comparisons/<id>/run.json                  what was asked for
    <spool>/comparisons/<id>/cases/<case_id>/g<n>/     the n-th launch of the case, as a run has it
        half.json                                      its round, its build and its figure
    <spool>/comparisons/<id>/result.json               the answer

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

from nightbench import paired
from nightbench.errors import UserError
from nightbench.model import (
    Build,
    Case,
    Catalog,
    Cluster,
    JobSpec,
    RunKind,
    Suite,
    WorkloadInfo,
)
from nightbench.paired import Estimate, Half, Outcome, Schedule, Side
from nightbench.plan import resolve
from nightbench.spool import CaseStore, RunSpool, Spool, read_json, utc_now, write_json

SCHEMA = "nightbench.comparison/1"
RESULT_SCHEMA = "nightbench.comparison-result/1"


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
        jobs = {
            side: _single(
                resolve(
                    case,
                    dataclasses.replace(suite, builds={**suite.builds, line: build}),
                    cluster,
                    catalog,
                    comparison_id,
                    deadline=deadline,
                )
            )
            for side, build in zip(Side, builds, strict=True)
        }
        schedule = Schedule.seeded(rounds, seed, case.case_id)
        compared.append(ComparedCase(case, jobs, schedule, catalog.workloads[case.workload]))
    return ComparisonPlan(comparison_id, suite, cluster, tuple(compared), rounds, min_effect, seed)


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


def asked_of(folder: RunSpool) -> dict[str, Any]:
    """Return what the caller of `store_comparison` had it keep.

    Raises:
        UserError: there is no such comparison.
    """
    document = folder.run()
    if document is None or document.get("schema") != SCHEMA:
        have = ", ".join(path.name for path in _known(folder)) or "none"
        raise UserError(
            f'comparison: found "{folder.run_id}", which is not in the spool; it has {have}'
        )
    return dict(document["asked"])


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


# --- the answer ---------------------------------------------------------------------------


def answer(plan: ComparisonPlan, folder: RunSpool, stopped: str | None = None) -> dict[str, Any]:
    """Judge what has been measured; the document of result.json.

    Args:
        plan: the comparison.
        folder: its files.
        stopped: why it ended early, as far as that does not follow from the launches.
    """
    level = paired.family_level(len(plan.cases))
    rows: list[dict[str, Any]] = []
    estimates: list[Estimate] = []
    for case in plan.cases:
        done = paired.progress(case.schedule, halves(folder, case.case_id))
        found = paired.estimate(
            [pair.ratio for pair in done.pairs], plan.min_effect, level, plan.seed
        )
        estimates.append(found)
        rows.append(
            {
                "case_id": case.case_id,
                "unit": case.unit,
                "nodes": [node.name for node in case.jobs[Side.A].nodes],
                **_figures(found),
                "order": [_order(pair.order) for pair in done.pairs],
                "rounds": [
                    {
                        "round": pair.round,
                        "order": _order(pair.order),
                        "a": pair.a,
                        "b": pair.b,
                        "ratio": pair.ratio,
                    }
                    for pair in done.pairs
                ],
                "dropped": [dataclasses.asdict(half) for half in done.dropped],
                "complete": len(done.pairs) >= plan.rounds,
                "stopped": done.stopped or (stopped if done.next is not None else None),
            }
        )
    combined = paired.combine(estimates, plan.min_effect)
    asked = folder.run() or {}
    return {
        "schema": RESULT_SCHEMA,
        "id": plan.comparison_id,
        "verdict": str(paired.overall([each.outcome for each in estimates])),
        "a": _build(plan.builds[Side.A]),
        "b": _build(plan.builds[Side.B]),
        "suite": plan.suite.name,
        "cluster": plan.cluster.name,
        "shared": plan.cluster.shared,
        "run_kind": str(RunKind.CONFIRM),
        "rounds": plan.rounds,
        "min_effect": plan.min_effect,
        "seed": plan.seed,
        "started_at": asked.get("started_at"),
        "ended_at": utc_now(),
        "complete": all(row["complete"] or row["stopped"] for row in rows) and stopped is None,
        "cases": rows,
        "combined": _figures(combined.estimate) if combined.estimate else None,
        "not_combined": combined.why_not,
    }


def _figures(found: Estimate) -> dict[str, Any]:
    return {
        "verdict": str(found.outcome),
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "level": found.level,
        "n": found.n,
        "p_value": found.p_value,
        "sentence": found.sentence,
    }


def _order(sides: Sequence[Side]) -> str:
    return "".join(side.upper() for side in sides)


def _build(build: Build) -> dict[str, Any]:
    return {**dataclasses.asdict(build), "build_id": build.build_id}


def save_answer(folder: RunSpool, document: Mapping[str, Any]) -> None:
    """Keep the answer."""
    write_json(folder.folder / "result.json", document)


def saved_answer(folder: RunSpool) -> dict[str, Any] | None:
    """The answer; None while there is none."""
    found: dict[str, Any] | None = read_json(folder.folder / "result.json")
    return found


def outcome_of(document: Mapping[str, Any]) -> Outcome:
    """The verdict of an answer."""
    return Outcome(document["verdict"])
