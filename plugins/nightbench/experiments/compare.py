"""Two builds compared on cases of a suite, as a request says."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from nightbench.config import parse_build
from nightbench.config.compare_builds import MERGE_BASE, committed, fetch_wheel, planned_build
from nightbench.config.experiment_requests import CompareRequest
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model import Suite
from nightbench.core.model.experiments import ExperimentKind
from nightbench.experiments.comparison import (
    ComparisonContext,
    ComparisonPlan,
    plan_comparison,
    stopped_because,
)
from nightbench.experiments.engine import Turn, run_comparison, unfit_nodes
from nightbench.experiments.experiment_spool import Document
from nightbench.experiments.record import Ended, ExperimentRecord
from nightbench.gang.commits import CommitBuild, CommitLate, build_commit, merge_base
from nightbench.nodes import NodesOut, nodes_out_from_json

CANCEL_POLL_S = 10.0
"""Time between two looks, while commits are built, whether the request was cancelled."""

T = TypeVar("T")


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
    """Return the suite with only the named cases, in its order; all if none is named.

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


async def measure_compare(turn: Turn) -> Ended:
    """Measure what is missing of a comparison, whose commits are built first.

    Raises:
        UserError: as of `run_comparison`; or a commit cannot be built, a wheel not be fetched.
    """
    experiment, record, uploads = turn.experiment, turn.record, turn.spool.uploads
    context = turn.context
    begun = turn.folder.run()
    if begun is None:
        request = CompareRequest.of(experiment.request)
        try:
            texts = await _unless_cancelled(built_commits(request, turn), record)
        except NotMeasured as ended:
            if ended.state == "queued" and record.is_spent and not record.ends_as:
                return Ended("failed", "the budget was used up before the commits were built")
            return Ended(ended.state, str(ended))
        a, b = (fetch_wheel(text, context.cluster, uploads.open) for text in texts)
        request = replace(request, a=a, b=b)
        plan_compare(request, experiment.name, context)  # before nodes are examined
        left_out = await unfit_nodes(turn, a.partition("=")[0])
    else:
        request = CompareRequest.of(begun["request"])
        left_out = nodes_out_from_json(begun["left_out"])
    plan = plan_compare(request, experiment.name, context, left_out)
    asked = dataclasses.asdict(request)
    document = await run_comparison(plan, asked, experiment.requested_by, turn, record.note)
    state, why = record.finished(turn.folder, stopped_because(document))
    if commits := await asyncio.to_thread(uploads.note, experiment.name):
        document = {**document, "commits": commits}
    return Ended(state, why, None if state == "queued" else document)


async def built_commits(request: CompareRequest, turn: Turn) -> tuple[str, str]:
    """Return both builds of a request, each commit as the wheel that was built of it.

    Raises:
        NotMeasured: the gap ended first.
        CommitFailed: one cannot be built.
    """
    context, uploads = turn.context, turn.spool.uploads
    texts: dict[str, str] = {}
    builds: dict[str, Document] = {}
    # B first: the merge base is that of its commit.
    for arm in ("b", "a"):
        texts[arm] = text = getattr(request, arm)
        if (of := committed(text)) is None:
            continue
        # The cluster's file may have changed since the request.
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
                        f"builds: commit {newer.commit} of {newer.repository} is itself on the "
                        f"branch {newer.recipe.branch}; expected the commit to compare with as A"
                    )
            builds[arm] = {"commit": commit.commit, "build": commit.build}
            await asyncio.to_thread(uploads.save_note, turn.experiment.name, builds)
            event = turn.observer.gang_event
            wheel = await build_commit(commit, *access, uploads, limit_s, event)
        except CommitLate:
            if limit_s < commit.recipe.timeout_s:
                raise NotMeasured("queued", "the deadline passed during the builds") from None
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
