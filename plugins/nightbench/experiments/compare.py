"""Measuring two builds beside each other: one launch after the other, through the real gang.

Each launch is a job of its own with one repeat. What has ended is in the spool; whoever calls
`measure_comparison` again goes on after it, and takes up a launch that still runs.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nightbench.checks import CheckContext, check_repeats
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, JobSpec, Severity
from nightbench.core.repeat_record import repeat_record
from nightbench.core.summarize import summarize_repeat
from nightbench.experiments import rounds
from nightbench.experiments.comparisons import ComparedCase, ComparisonPlan, halves, save_half
from nightbench.experiments.rounds import Half, Side
from nightbench.gang import (
    CaseOutcome,
    EnvironmentUnavailable,
    NodeError,
    RepeatOutcome,
    Shipment,
    SshTarget,
    cancel,
    prepare,
    run_gang,
)
from nightbench.gang.events import GangEvent, OnEvent, ignore
from nightbench.spool import CaseStore, RunSpool


class Stopped(UserError):
    """Somebody ended a launch from elsewhere, or there is no time for another one."""


@dataclass(frozen=True)
class Ended:
    """A launch has ended."""

    case: ComparedCase
    number: int
    half: Half


@dataclass(frozen=True)
class Listener:
    """Who hears how a comparison goes; everything may be ignored."""

    on_event: OnEvent = ignore
    on_begin: Callable[[ComparedCase, int, int, Side], None] = lambda *_: None
    """Case, number of the launch, round, build."""
    on_end: Callable[[Ended], None] = lambda *_: None


async def measure_comparison(
    plan: ComparisonPlan,
    folder: RunSpool,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    listener: Listener | None = None,
) -> None:
    """Measure what is missing of a comparison.

    The environments of both builds are made before anything is launched.

    Args:
        plan: the comparison, which `store_comparison` has stored.
        folder: its files.
        targets: node -> how it is reached.
        shipment: what the nodes need.
        listener: hears how it goes.

    Raises:
        EnvironmentUnavailable: a node cannot have one of the builds.
        NodeError: a node cannot be reached before the first launch.
        Stopped: it ended early; what was measured counts.
        asyncio.CancelledError: after the gang has been ended on the nodes.
    """
    hears = listener or Listener()
    for case in plan.cases:
        ended = halves(folder, case.case_id)
        done = rounds.progress(case.schedule, ended)
        if done.next is not None:
            side = done.next[1]
            # Under the numbers of the next launches: a job file that is in use stays as it is.
            for number, each in enumerate((side, rounds.other(side)), start=len(ended)):
                await prepare(case.launch(each, number), targets, shipment, hears.on_event)
    for case in plan.cases:
        while True:
            ended = halves(folder, case.case_id)
            done = rounds.progress(case.schedule, ended)
            if done.next is None:
                break
            number, (of, side) = len(ended), done.next
            hears.on_begin(case, number, of, side)
            half = await _launch(plan, case, folder, number, of, side, targets, shipment, hears)
            hears.on_end(Ended(case, number, half))


def launch_of(folder: RunSpool, case: ComparedCase, side: Side, number: int) -> JobSpec:
    """The job of a launch, which is expected to take what the longest one before it took."""
    job = case.launch(side, number)
    records = [folder.case(case.case_id, before).repeat(1) for before in range(number)]
    took = [
        seconds
        for record in records
        if record and (seconds := RepeatOutcome.from_record(1, record, None).seconds) is not None
    ]
    return dataclasses.replace(job, expected_repeat_s=max(took, default=job.expected_repeat_s))


async def _launch(
    plan: ComparisonPlan,
    case: ComparedCase,
    folder: RunSpool,
    number: int,
    of: int,
    side: Side,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    hears: Listener,
) -> Half:
    """One launch, from its files on the nodes to its half.json."""
    job, store = launch_of(folder, case, side, number), folder.case(case.case_id, number)
    taken_up = store.job() is not None
    try:
        await asyncio.to_thread(store.save_job, job.to_json())
        await prepare(job, targets, shipment, hears.on_event)
        outcome = await run_gang(job, targets, store, hears.on_event)
        half = await asyncio.to_thread(_half, plan, case, job, store, of, side, outcome)
        if half.status == "interrupted" and not taken_up:
            save_half(store, half)
            raise Stopped(f"{job.job_id}: {half.reason}")
    except EnvironmentUnavailable:
        raise
    except NodeError as error:
        half = Half(of, side, "failed", None, str(error))
    except asyncio.CancelledError:
        await _end(job, targets, hears.on_event)
        save_half(store, Half(of, side, "interrupted", None, "interrupted by the user"))
        raise
    if half.status == "failed" and taken_up:
        # The process that began it is gone, and its gang ended without it.
        half = Half(of, side, "interrupted", None, half.reason)
    await asyncio.to_thread(save_half, store, half)
    return half


async def _end(job: JobSpec, targets: Mapping[str, SshTarget], on_event: OnEvent) -> None:
    try:
        await cancel(job, {node.name: targets[node.name] for node in job.nodes})
    except UserError as error:
        # The agents end their gangs by themselves when their lease runs out.
        on_event(GangEvent("cancel", f"{job.job_id}: could not be ended at once: {error}"))


def _half(
    plan: ComparisonPlan,
    case: ComparedCase,
    job: JobSpec,
    store: CaseStore,
    of: int,
    side: Side,
    outcome: CaseOutcome,
) -> Half:
    """What a launch brought, after the checks that every repeat has to pass."""
    if outcome.status in (CaseStatus.CANCELLED, CaseStatus.LEFT_OUT):
        return Half(of, side, "interrupted", None, outcome.reason)
    said = store.repeat(1)
    if said is None:
        return Half(of, side, "failed", None, outcome.reason)
    if said["status"] != "ok":
        status = "disturbed" if said["status"] == "disturbed" else "failed"
        return Half(of, side, status, None, said.get("reason") or outcome.reason)
    record = repeat_record({**said, "repeat": 1}, store.results(1))
    summary = summarize_repeat(record, case.case)
    context = CheckContext.of(job, case.workload, shared=plan.cluster.shared)
    refused = [
        f"{check.check}: {check.observed}, expected {check.expected}"
        for check in check_repeats(context, [record], [summary])
        if check.severity is Severity.FAIL and not check.success
    ]
    if refused or summary.throughput is None:
        reason = "; ".join(refused) or summary.problem
        return Half(of, side, "failed", None, reason)
    return Half(of, side, "ok", summary.throughput)
