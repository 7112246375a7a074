"""Measuring the cases of a run over SSH without a scheduler, one after another.

The caller has stored the plan in the spool before; every case leaves an outcome there, also one
that could not be prepared. A cancelled measurement leaves no process on any node.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nightbench.errors import UserError
from nightbench.gang import (
    CaseOutcome,
    EnvironmentUnavailable,
    Shipment,
    SshTarget,
    cancel,
    faults_of,
    node_faults,
    prepare,
    run_gang,
)
from nightbench.gang.events import GangEvent, OnEvent
from nightbench.model import CaseStatus, JobSpec
from nightbench.spool import RunSpool, utc_now
from nightbench.summarize import throughput_of

REFRESH_S = 1.0


@dataclass(frozen=True)
class CaseEnd:
    """How one case of a direct run ended."""

    case_id: str
    status: CaseStatus
    reason: str | None


def measure(
    jobs: Sequence[JobSpec],
    run: RunSpool,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    on_event: OnEvent,
    refresh: Callable[[], None],
) -> list[CaseEnd]:
    """Measure all jobs, one after another.

    Args:
        jobs: the cases, resolved; in this order.
        run: where results go.
        targets: node -> how it is reached.
        shipment: what the nodes need.
        on_event: hears what happens.
        refresh: called every second, to show progress.

    Returns:
        How each case ended.

    Raises:
        KeyboardInterrupt: the user (Ctrl-C) or SIGTERM ended it; nothing is left running.
    """
    with run.steered():
        return asyncio.run(_measure(jobs, run, targets, shipment, on_event, refresh))


async def _measure(
    jobs: Sequence[JobSpec],
    run: RunSpool,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    on_event: OnEvent,
    refresh: Callable[[], None],
) -> list[CaseEnd]:
    work = asyncio.create_task(_all(jobs, run, targets, shipment, on_event))
    loop = asyncio.get_running_loop()

    def stop() -> None:
        # Once: a second Ctrl-C must not stop the clean-up half-way.
        if not work.cancelling():
            work.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        while not work.done():
            refresh()
            await asyncio.wait([work], timeout=REFRESH_S)
        return work.result()
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
) -> list[CaseEnd]:
    ends: list[CaseEnd] = []
    for position, job in enumerate(jobs):
        try:
            ends.append(await _one(job, run, targets, shipment, on_event))
        except asyncio.CancelledError:
            for rest in jobs[position:]:
                _record(rest, run, CaseStatus.CANCELLED, "cancelled by the user")
            raise
    return ends


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
        reason = str(error)
        away = isinstance(error, EnvironmentUnavailable)
        status = CaseStatus.UNAVAILABLE if away else CaseStatus.FAILED
        _record(job, run, status, reason, error)
        return CaseEnd(job.case.case_id, status, reason)
    except asyncio.CancelledError:
        await _clean_up(job, targets, on_event)
        raise
    return CaseEnd(job.case.case_id, outcome.status, outcome.reason)


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
    reason: str,
    because: BaseException | None = None,
) -> None:
    store = run.case(job.case.case_id, job.generation)
    if store.outcome() is None:
        store.save_outcome(
            {
                "status": str(status),
                "reason": reason,
                "repeats": [],
                "ended_at": utc_now(),
                **node_faults(faults_of(because) if because else {}),
            }
        )
