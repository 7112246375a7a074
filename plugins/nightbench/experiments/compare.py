"""Two builds compared on cases of a suite: requested by a person, a CI, or at a terminal."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from nightbench.config import parse_build
from nightbench.config.compare_builds import (
    FORMS,
    MERGE_BASE,
    committed,
    fetch_wheel,
    planned_build,
)
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model import Suite
from nightbench.core.model.experiments import PRIORITIES, Experiment, ExperimentKind
from nightbench.experiments.comparison import ComparisonContext, ComparisonPlan, plan_comparison
from nightbench.experiments.engine import ExperimentContext, run_comparison, unfit_nodes
from nightbench.experiments.experiment_spool import Document
from nightbench.experiments.paired_statistics import LEAST_ROUNDS
from nightbench.experiments.record import Ended, ExperimentRecord
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.gang.commits import CommitBuild, CommitLate, build_commit, merge_base
from nightbench.nodes import NodesOut, nodes_out_from_json
from nightbench.spool import Spool

MOST_ROUNDS = 1000
LONGEST = {"note": 2000, "change_url": 2000, "change_commit": 200}
CANCEL_POLL_S = 10.0
"""Time between two looks, while commits are built, whether the request was cancelled."""

T = TypeVar("T")


@dataclass(frozen=True)
class CompareRequest:
    """Two builds, and the cases and rounds in which they are compared."""

    a: str
    """A build; at a terminal one of `parse_build`, else one of `compare_builds.FORMS`. b too."""
    b: str
    suite: str
    """By name; at a terminal also the absolute path of its file."""
    cluster: str | None = None
    """By name or path; the suite's own where None."""
    cases: Sequence[str] = ()
    """Slugs; all cases of the line where there are none."""
    rounds: int = 7
    min_effect: float = 0.01
    seed: int = 1
    note: str = ""
    change_url: str = ""
    change_commit: str = ""
    fork: bool = False
    budget_s: float | None = None
    priority: str = "normal"
    profile: bool = False
    frameworks: str = ""
    workloads: str = ""
    strategies: str = ""
    scale: str | None = None
    outside_hours: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> CompareRequest:
        """Read fields of the form or of a body; those that are empty have their defaults.

        Raises:
            UserError: a field is unknown or missing, or holds what it cannot.
        """
        if unknown := sorted(set(params) - set(_RULES)):
            raise UserError(f"{unknown[0][:80]}: expected one of {', '.join(_RULES)}")
        given = {name: value for name, value in params.items() if value not in (None, "", [])}
        if "a" not in given and (of := committed(str(given.get("b", "")))):
            given["a"] = f"{given['b'].partition('=')[0]}=commit:{of[0]}@{MERGE_BASE}"
        for name in ("a", "b", "suite"):
            if name not in given:
                raise UserError(f"{name}: found nothing; expected {_RULES[name][1]}")
        for name, value in given.items():
            fits, expected = _RULES[name]
            if not fits(value):
                raise UserError(f"{name}: found {str(value)[:80]!r}; expected {expected}")
        return cls(**{**given, "cases": tuple(given.get("cases", ()))})

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CompareRequest:
        """Return the request that an experiment or the run.json of a comparison holds."""
        return cls(
            **{each.name: document[each.name] for each in fields(cls) if each.name in document}
        )


def _is_text(longest: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and len(value) <= longest and value.isprintable()


def _is_number(least: float, most: float, *, whole: bool = False) -> Callable[[Any], bool]:
    kinds = int if whole else (int, float)
    return lambda value: (
        isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 100 and all(map(_is_text(400), value))


_BUILD = f"a build: {FORMS}"
_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "a": (_is_text(2000), _BUILD),
    "b": (_is_text(2000), _BUILD),
    "suite": (_is_text(200), "the name of a suite"),
    "cluster": (_is_text(200), "the name of a cluster"),
    "cases": (_is_names, "a list of at most 100 names of cases"),
    "rounds": (
        _is_number(LEAST_ROUNDS, MOST_ROUNDS, whole=True),
        f"a whole number from {LEAST_ROUNDS} to {MOST_ROUNDS}",
    ),
    "min_effect": (_is_number(0.0001, 0.5), "a fraction from 0.0001 to 0.5, 0.01 for 1 %"),
    "budget_s": (_is_number(60, 48 * 3600), "seconds, from 60 to 172800"),
    "priority": (lambda value: value in PRIORITIES, " or ".join(PRIORITIES)),
    **{name: (_is_text(most), f"a line of at most {most}") for name, most in LONGEST.items()},
    "fork": (lambda value: isinstance(value, bool), "true or false"),
    "profile": (lambda value: isinstance(value, bool), "true or false"),
}
"""Field of a form or a body -> whether a value fits, and what is expected."""


def plan_compare(
    request: CompareRequest,
    name: str,
    context: ComparisonContext,
    left_out: NodesOut | None = None,
    kind: ExperimentKind = ExperimentKind.COMPARE,
) -> ComparisonPlan:
    """Return the plan of a request.

    Raises:
        UserError: a build or a case is not there, or the cluster cannot run it.
    """
    return plan_comparison(
        dataclasses.replace(context, suite=with_cases(context.suite, request.cases)),
        (parse_build(request.a), parse_build(request.b)),
        comparison_id=name,
        rounds=request.rounds,
        min_effect=request.min_effect,
        seed=request.seed,
        left_out=left_out,
        kind=kind,
    )


def with_cases(suite: Suite, case_ids: Sequence[str]) -> Suite:
    """Return the suite with only the named cases, in its order; all where none is named.

    Raises:
        UserError: the suite has no such case.
    """
    known = {case.case_id: case for case in suite.cases}
    for case_id in case_ids:
        if case_id not in known:
            raise UserError(f"case: {one_of(case_id, known)}; of suite {suite.name}")
    if not case_ids:
        return suite
    chosen = tuple(case for case_id, case in known.items() if case_id in case_ids)
    return dataclasses.replace(suite, cases=chosen)


# --- measuring ----------------------------------------------------------------------------


class NotMeasured(UserError):
    """It has no result yet; `state` is where the request goes."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


async def measure_compare(
    experiment: Experiment,
    spool: Spool,
    context: ExperimentContext,
    observer: ComparisonReporter,
    record: ExperimentRecord,
) -> Ended:
    """Measure what is missing of a comparison, whose commits are built first.

    Raises:
        UserError: as of `run_comparison`; or a commit cannot be built, a wheel not be fetched.
    """
    folder = spool.comparison(experiment.name)
    begun = folder.run()
    if begun is None:
        request = CompareRequest.of(experiment.request)
        try:
            work = built_commits(experiment.name, request, spool, context, observer)
            texts = await _unless_cancelled(work, record)
        except NotMeasured as ended:
            if ended.state == "queued" and record.is_spent and not record.ends_as:
                return Ended("failed", "its budget was used up before its commits were built")
            return Ended(ended.state, str(ended))
        a, b = (fetch_wheel(text, context.cluster, spool.uploads.open) for text in texts)
        request = replace(request, a=a, b=b)
        plan_compare(request, experiment.name, context)  # before nodes are examined
        left_out = await unfit_nodes(context, a.partition("=")[0])
        observer.left_out(left_out)
    else:
        request = CompareRequest.of(begun["request"])
        left_out = nodes_out_from_json(begun["left_out"])
    plan = plan_compare(request, experiment.name, context, left_out)
    asked = dataclasses.asdict(request)
    document = await run_comparison(
        plan, spool, asked, experiment.requested_by, context, observer, record.note
    )
    stopped = next((case["stopped"] for case in document["cases"] if case["stopped"]), "")
    state, why = record.finished(
        folder, None if document["complete"] else stopped or "its gap has ended"
    )
    if commits := await asyncio.to_thread(spool.uploads.note, experiment.name):
        document = {**document, "commits": commits}
    return Ended(state, why, None if state == "queued" else document)


async def built_commits(
    name: str,
    request: CompareRequest,
    spool: Spool,
    context: ExperimentContext,
    observer: ComparisonReporter,
) -> tuple[str, str]:
    """Return both builds of a request, each commit as the wheel that was built of it.

    Raises:
        NotMeasured: the gap ended first.
        CommitFailed: one cannot be built.
    """
    texts: dict[str, str] = {}
    builds: dict[str, Document] = {}
    # B first: the merge base is that of its commit.
    for arm in ("b", "a"):
        texts[arm] = text = getattr(request, arm)
        if (of := committed(text)) is None:
            continue
        # Since it was requested, the cluster's file may have changed.
        line = planned_build(text, context.cluster).line
        commit = CommitBuild(context.cluster, line, *of)
        limit_s = left_s = commit.recipe.timeout_s
        if context.deadline is not None:
            left_s = (context.deadline - datetime.now(UTC)).total_seconds()
        limit_s = max(1.0, min(limit_s, left_s))
        access = (context.targets, context.shipment)
        try:
            if commit.commit == MERGE_BASE:
                newer = replace(commit, commit=builds["b"]["commit"])
                commit = replace(commit, commit=await merge_base(newer, *access, limit_s))
                if commit == newer:
                    raise UserError(
                        f"builds: commit {newer.commit} of {newer.repository} is on its branch "
                        f"{newer.recipe.branch}; name the commit that it is compared with as A"
                    )
            builds[arm] = {"commit": commit.commit, "build": commit.build}
            await asyncio.to_thread(spool.uploads.save_note, name, builds)
            wheel = await build_commit(commit, *access, spool.uploads, limit_s, observer.gang_event)
        except CommitLate:
            if limit_s < commit.recipe.timeout_s:
                raise NotMeasured("queued", "its gap ended before its commits were built") from None
            raise
        texts[arm] = f"{line}={wheel}"
    return texts["a"], texts["b"]


async def _unless_cancelled(work: Coroutine[Any, Any, T], record: ExperimentRecord) -> T:
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=CANCEL_POLL_S))[0]:
            if why := await asyncio.to_thread(record.note):
                raise NotMeasured(record.ends_as, why)
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
