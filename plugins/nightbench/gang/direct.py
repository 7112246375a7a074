"""Measuring the cases of a run over SSH without a scheduler.

The caller has stored the plan in the spool before; every case leaves an outcome there, also one
that could not be prepared. A cancelled measurement leaves no process on any node.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, JobSpec, Reason, ReasonCode
from nightbench.core.placement import held_by
from nightbench.core.summarize import throughput_of
from nightbench.gang import (
    EnvironmentUnavailable,
    Shipment,
    SshTarget,
    cancel,
    faults_of,
    prepare,
    reason_of,
    run_gang,
)
from nightbench.gang.progress import GangEvent, OnEvent
from nightbench.spool import CaseOutcome, RunSpool

REFRESH_S = 1.0
CANCELLED = Reason(ReasonCode.CANCELLED, observed="by the user")

T = TypeVar("T")


@dataclass(frozen=True)
class CaseEnd:
    """How one case of a direct run ended."""

    case_id: str
    status: CaseStatus
    reasons: tuple[Reason, ...]


def measure(
    jobs: Sequence[JobSpec],
    run: RunSpool,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    on_event: OnEvent,
    refresh: Callable[[], None],
    at_once: int = 1,
) -> list[CaseEnd]:
    """Measure all jobs, one after another, or several at once on disjoint nodes.

    Args:
        jobs: the cases, resolved; in this order.
        run: where results go.
        targets: node -> how it is reached.
        shipment: what the nodes need.
        on_event: hears what happens.
        refresh: called every second, to show progress.
        at_once: cases that the cluster takes at once.

    Returns:
        How each case ended.

    Raises:
        KeyboardInterrupt: the user (Ctrl-C) or SIGTERM ended it; nothing is left running.
    """
    work = _all(jobs, run, targets, shipment, on_event, at_once)
    with run.steered():
        return asyncio.run(until_done(work, refresh))


async def until_done(work: Coroutine[Any, Any, T], refresh: Callable[[], None]) -> T:
    """Wait for what is measured; Ctrl-C and SIGTERM cancel it once, and it cleans up.

    Args:
        work: measures.
        refresh: called every second, to show progress.

    Raises:
        KeyboardInterrupt: it was cancelled.
    """
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        # Once: a second Ctrl-C must not stop the clean-up half-way.
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        while not task.done():
            refresh()
            await asyncio.wait([task], timeout=REFRESH_S)
        return task.result()
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _all(
    jobs: Sequence[JobSpec],
    run: RunSpool,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    on_event: OnEvent,
    at_once: int,
) -> list[CaseEnd]:
    try:
        return await side_by_side(
            jobs, lambda job: _one(job, run, targets, shipment, on_event), at_once
        )
    except asyncio.CancelledError:
        for job in jobs:
            _record(job, run, CaseStatus.CANCELLED, CANCELLED)
        raise


async def side_by_side(
    jobs: Sequence[JobSpec], measure: Callable[[JobSpec], Coroutine[Any, Any, T]], at_once: int
) -> list[T]:
    """Measure jobs in their order, several at once where they share no node or device.

    A job that has to wait for what another one holds is not overtaken: series stay in the order
    of the plan.

    Args:
        jobs: the cases.
        measure: measures one; it cleans up when it is cancelled.
        at_once: at most so many go at once.

    Returns:
        What came of each, in the order of the jobs. When this is cancelled, or one of them raises,
        all that go are cancelled first, and have cleaned up.
    """
    waiting = list(jobs)
    going: dict[asyncio.Task[T], JobSpec] = {}
    ends: dict[str, T] = {}
    try:
        while waiting or going:
            held = {name for job in going.values() for name in held_by(job.nodes, job.lock)}
            fits = waiting and len(going) < at_once
            if fits and held.isdisjoint(held_by(waiting[0].nodes, waiting[0].lock)):
                job = waiting.pop(0)
                going[asyncio.create_task(measure(job))] = job
                continue
            done, _ = await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                ends[going[task].job_id] = task.result()
                del going[task]
    finally:
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
    return [ends[job.job_id] for job in jobs]


async def _one(
    job: JobSpec,
    run: RunSpool,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    on_event: OnEvent,
) -> CaseEnd:
    store = run.case(job.case.case_id, job.generation)
    try:
        store.save_job(job.to_json())
        store.save_progress({"state": "preparing", "message": "preparing the nodes"})
        await prepare(job, targets, shipment, on_event)
        outcome: CaseOutcome = await run_gang(
            job, targets, store, on_event, throughput_of=throughput_of(job.case)
        )
    except UserError as error:
        # A node that does not answer, say: the case failed, the next one may not need that node.
        away = isinstance(error, EnvironmentUnavailable)
        status = CaseStatus.UNAVAILABLE if away else CaseStatus.FAILED
        reason = reason_of(error)
        _record(job, run, status, reason, faults_of(error))
        return CaseEnd(job.case.case_id, status, (reason,))
    except asyncio.CancelledError:
        await _clean_up(job, targets, on_event)
        raise
    return CaseEnd(job.case.case_id, outcome.status, outcome.reasons)


async def _clean_up(job: JobSpec, targets: Mapping[str, SshTarget], on_event: OnEvent) -> None:
    try:
        await cancel(job, {node.name: targets[node.name] for node in job.nodes})
    except UserError as error:
        # The agents end their gangs by themselves when their lease runs out.
        on_event(GangEvent("cancel", f"{job.job_id}: could not be ended at once: {error}"))


def _record(
    job: JobSpec,
    run: RunSpool,
    status: CaseStatus,
    reason: Reason,
    faults: Sequence[Reason] = (),
) -> None:
    run.case(job.case.case_id, job.generation).end(status, [reason], faults)
