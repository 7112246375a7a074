"""Measuring a requested comparison: its commits are built, then it is a comparison of `ab`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from nightbench.config.compare_builds import MERGE_BASE, committed, fetch_wheel, planned_build
from nightbench.core.errors import UserError
from nightbench.experiments.ab import AbRequest, plan_ab
from nightbench.experiments.engine import ExperimentContext, run_comparison, unfit_nodes
from nightbench.experiments.experiment_spool import Document, is_cancelled, request_cancel
from nightbench.experiments.profiles import (
    STEPS,
    measure_profile,
    request_of,
    saved_profile,
    summary_of,
)
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.gang.commits import CommitBuild, CommitLate, build_commit, merge_base
from nightbench.nodes import nodes_out_from_json
from nightbench.spool import RunSpool, Spool
from nightbench.warehouse.repository import Row

SEED = 1
CANCEL_POLL_S = 10.0
"""How often somebody is asked, while commits are built, whether they are wanted still."""

T = TypeVar("T")


class NotMeasured(UserError):
    """It has no result, or no profile, yet; `state` is where the request goes."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


async def measure_request(
    row: Row,
    spool: Spool,
    context: ExperimentContext,
    observer: ComparisonReporter,
    cancelled_by: Callable[[], str | None],
) -> Document:
    """Measure what is missing of a requested comparison, and return its result.

    Of one that is to be profiled after its rounds the result is there: its pair is launched once
    more, and the result gets `profile`.

    `cancelled_by` is asked after each launch, and now and then while commits are built, who does
    not want any more of it.

    Raises:
        NotMeasured: it was cancelled, or its gap ended, while its commits were built; or its gap
            ended before its profile.
        UserError: as of `run_comparison`; or a commit cannot be built, a wheel not be fetched.
    """
    if row["profile"] == "after":
        return await _profiled(row, spool, context, observer, cancelled_by)
    folder = spool.comparison(row["comparison_id"])
    begun = folder.run()
    if begun is None:
        texts = await _unless_cancelled(built_commits(row, spool, context, observer), cancelled_by)
        a, b = (fetch_wheel(text, context.cluster, spool.uploads.open) for text in texts)
        request = AbRequest(
            a,
            b,
            row["suite"],
            row["rounds"],
            row["min_effect"],
            SEED,
            cases=list(row["cases"]),
            cluster=row["cluster"],
        )
        left_out = await unfit_nodes(context, a.partition("=")[0])
        observer.left_out(left_out)
    else:
        request = AbRequest(**begun["request"])
        left_out = nodes_out_from_json(begun["left_out"])
    plan = plan_ab(request, row["comparison_id"], context, left_out)
    stop = _stop_if_cancelled(folder, cancelled_by)
    document = await run_comparison(
        plan, spool, asdict(request), row["requested_by"], context, observer, stop
    )
    commits = await asyncio.to_thread(spool.uploads.note, row["comparison_id"])
    return {**document, "commits": commits} if commits else document


async def _profiled(
    row: Row,
    spool: Spool,
    context: ExperimentContext,
    observer: ComparisonReporter,
    cancelled_by: Callable[[], str | None],
) -> Document:
    result: Document = row["result"]
    cases = [case["case_id"] for case in result["cases"] if case["n"]]
    if not cases:
        raise UserError("profile: no case has a round of both builds")
    of = row["comparison_id"]
    # The same in every try of this turn: one that is put back or tried again goes on.
    name = f"profile-{of}-{row['queued_at'].astimezone(UTC):%Y%m%dT%H%M%S}"
    document = saved_profile(spool, name)
    if document is None:
        document = await measure_profile(
            request_of(spool, of, cases),
            name,
            of,
            STEPS,
            spool,
            row["requested_by"],
            context,
            observer,
            _stop_if_cancelled(spool.comparison(name), cancelled_by),
        )
        if saved_profile(spool, name) is None:
            raise NotMeasured("queued", "its gap ended before its profile")
    return {**result, "profile": summary_of(document)}


def _stop_if_cancelled(
    folder: RunSpool, cancelled_by: Callable[[], str | None]
) -> Callable[[], None]:
    def stop() -> None:
        if person := cancelled_by():
            request_cancel(folder, f"cancelled by {person}")

    return stop


async def built_commits(
    row: Row, spool: Spool, context: ExperimentContext, observer: ComparisonReporter
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
        texts[arm] = row[arm]
        if (of := committed(row[arm])) is None:
            continue
        # Since it was asked for, the cluster's file may have changed.
        line = planned_build(row[arm], context.cluster).line
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
            await asyncio.to_thread(spool.uploads.save_note, row["comparison_id"], builds)
            wheel = await build_commit(commit, *access, spool.uploads, limit_s, observer.gang_event)
        except CommitLate:
            if limit_s < commit.recipe.timeout_s:
                raise NotMeasured("queued", "its gap ended before its commits were built") from None
            raise
        texts[arm] = f"{line}={wheel}"
    return texts["a"], texts["b"]


async def _unless_cancelled(
    work: Coroutine[Any, Any, T], cancelled_by: Callable[[], str | None]
) -> T:
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=CANCEL_POLL_S))[0]:
            if await asyncio.to_thread(cancelled_by):
                raise NotMeasured("cancelled", "")
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def outcome(row: Row, document: Document, spool: Spool, spent_s: float) -> tuple[str, str]:
    """Return the state of a request after measuring, and why.

    It goes back into the queue where the gap was too short for it.
    """
    if row["profile"] == "after":
        whys = (early_end(row, document), _not_profiled(document["profile"]))
        return "done", "; ".join(filter(None, whys))
    folder = spool.comparison(row["comparison_id"])
    stopped = next((case["stopped"] for case in document["cases"] if case["stopped"]), "")
    if is_cancelled(folder):
        return "cancelled", ""
    if document["complete"]:
        return "done", ""
    if row["budget_s"] is not None and row["spent_s"] + spent_s >= 0.95 * row["budget_s"]:
        return "done", early_end(row, document)
    return "queued", stopped or "its gap has ended"


def early_end(row: Row, document: Document) -> str:
    """Return why a result that stands has fewer rounds than asked for; empty where it has all."""
    if document["complete"] or row["budget_s"] is None:
        return ""
    return f"its budget of {row['budget_s']:.0f} s is used up"


def _not_profiled(profile: Document) -> str:
    """Return why cases have no profile: a line for everybody, then all of it; or nothing."""
    lacking = [case for case in profile["cases"] if case["why"]]
    if not lacking:
        return ""
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    whole = (f"{case['case_id']}: {case['why']}" for case in lacking)
    head = f"no profile of {lacking[0]['case_id']}{more}: {lacking[0]['kind']}"
    return "\n".join((head, *whole))
