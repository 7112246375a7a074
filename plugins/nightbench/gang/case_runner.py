"""Measures the cases of a run over SSH from this process, without a scheduler.

The caller has stored the plan in the spool. Every case gets an outcome there, also one that could
not be prepared. A cancelled measurement leaves no process on any node.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, JobSpec, Reason, ReasonCode
from nightbench.core.placement import resources_of
from nightbench.core.summarize import throughput_of
from nightbench.gang.cleanup import cancel
from nightbench.gang.controller import run_gang
from nightbench.gang.errors import (
    Cancelled,
    EnvironmentUnavailable,
    Superseded,
    faults_of,
    reason_of,
)
from nightbench.gang.pods import delete_pods_of
from nightbench.gang.progress import GangEvent, OnEvent
from nightbench.gang.provisioning import prepare
from nightbench.gang.shipping import Shipment
from nightbench.gang.transport import Target
from nightbench.spool import CaseOutcome, RunSpool

REFRESH_S = 1.0
CANCELLED = Reason(ReasonCode.CANCELLED, observed="by the user")

T = TypeVar("T")


def measure_cases(
    jobs: Sequence[JobSpec],
    run: RunSpool,
    targets: Mapping[str, Target],
    shipment: Shipment,
    on_event: OnEvent,
    refresh: Callable[[], None],
    at_once: int = 1,
) -> list[CaseOutcome]:
    """Measure all jobs, one after another, or several at once on disjoint nodes.

    They are measured in this order. `refresh` is called every second, to show progress.

    Returns:
        How each case ended.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM; no process is left on a node.
    """

    async def measure_all() -> list[CaseOutcome]:
        try:
            return await run_disjoint(
                jobs, lambda job: _measure_case(job, run, targets, shipment, on_event), at_once
            )
        except asyncio.CancelledError:
            for job in jobs:
                run.case(job.case.case_id, job.generation).end(CaseStatus.CANCELLED, [CANCELLED])
            raise

    with run.controlled():
        return asyncio.run(run_interruptible(measure_all(), refresh))


async def run_interruptible(work: Coroutine[Any, Any, T], refresh: Callable[[], None]) -> T:
    """Return the result of a coroutine, which Ctrl-C and SIGTERM cancel once.

    The coroutine cleans up when it is cancelled; `refresh` is called every second.

    Raises:
        KeyboardInterrupt: the coroutine was cancelled, and has cleaned up.
    """
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        # A second Ctrl-C must not interrupt the clean-up.
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


async def run_disjoint(
    jobs: Sequence[JobSpec], measure: Callable[[JobSpec], Coroutine[Any, Any, T]], at_once: int
) -> list[T]:
    """Measure jobs in their order, several at once if they share no node or device.

    No job overtakes one that waits for a node or device: series keep the order of the plan.

    Returns:
        The results in the order of the jobs. If this is cancelled or a job raises, all running
        jobs are cancelled and have cleaned up before the error is raised.
    """
    waiting = list(jobs)
    running: dict[asyncio.Task[T], JobSpec] = {}
    results: dict[str, T] = {}
    try:
        while waiting or running:
            held = {name for job in running.values() for name in resources_of(job.nodes, job.lock)}
            fits = waiting and len(running) < at_once
            if fits and held.isdisjoint(resources_of(waiting[0].nodes, waiting[0].lock)):
                job = waiting.pop(0)
                running[asyncio.create_task(measure(job))] = job
                continue
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                results[running[task].job_id] = task.result()
                del running[task]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return [results[job.job_id] for job in jobs]


async def _measure_case(
    job: JobSpec,
    run: RunSpool,
    targets: Mapping[str, Target],
    shipment: Shipment,
    on_event: OnEvent,
) -> CaseOutcome:
    store = run.case(job.case.case_id, job.generation)
    try:
        store.save_job(job.to_json())
        store.save_progress({"state": "preparing", "message": "preparing the nodes"})
        await prepare(job, targets, shipment, on_event, store=store)
        measured = partial(throughput_of, job.case)
        return await run_gang(job, targets, store, on_event, measured, shipment)
    except Cancelled as cancelled:
        await delete_pods_of(job, targets, on_event)
        return CaseOutcome(CaseStatus.CANCELLED, cancelled.reasons)
    except UserError as error:
        # The next case may not need the node that failed.
        unavailable = isinstance(error, EnvironmentUnavailable)
        status = CaseStatus.UNAVAILABLE if unavailable else CaseStatus.FAILED
        reason = reason_of(error)
        if not isinstance(error, Superseded):
            await delete_pods_of(job, targets, on_event)
        store.end(status, [reason], faults_of(error))
        return CaseOutcome(status, (reason,))
    except asyncio.CancelledError:
        await clean_up(job, targets, on_event)
        raise


async def clean_up(job: JobSpec, targets: Mapping[str, Target], on_event: OnEvent) -> None:
    """End a gang whose measurement was cancelled; what cannot be ended at once is an event."""
    try:
        await cancel(job, targets)
    except UserError as error:
        # The agents end their processes themselves when the lease expires.
        on_event(GangEvent("cancel", f"{job.job_id}: could not be cancelled at once: {error}"))
