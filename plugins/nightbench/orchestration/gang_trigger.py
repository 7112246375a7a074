"""The trigger that controls a gang from a triggerer, and ends the task itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

from airflow.triggers.base import (
    BaseTrigger,
    TaskFailedEvent,
    TaskSkippedEvent,
    TaskSuccessEvent,
    TriggerEvent,
)

from nightbench.config.clusters import on_this_machine
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, JobSpec, Reason, ReasonCode
from nightbench.core.summarize import throughput_of
from nightbench.gang import (
    GangEvent,
    Shipment,
    Superseded,
    Target,
    cancel,
    faults_of,
    reason_of,
    run_gang,
)
from nightbench.gang.pods import delete_pods_of
from nightbench.night.code_snapshot import kept_shipment
from nightbench.orchestration.ssh_targets import ssh_targets_async
from nightbench.report.live_view import LiveView
from nightbench.spool import CaseOutcome, CaseStore, open_spool
from nightbench.spool.plans import PlannedJob, load_job

WAIT_S = 12 * 3600.0
"""How long a gang may wait for nodes that others hold."""

POLL_S = 5.0

SILENT_S = 600.0
"""Another controller that writes no progress for so long has died; one that waits for nodes may
be taken over by this, which costs it nothing."""

LOOK_UP_S = 90.0
"""How long job and Connections are looked up again: the worker has found them, so Airflow's
database or the spool's disk is away for a moment."""

END_S = 180.0
"""For ending a gang: its agents end their processes, then its nodes are swept."""

_ARGUMENTS = ("nightbench_run", "case_id", "generation", "last_try", "project")

_ending: set[asyncio.Task[None]] = set()
"""Gangs that are being ended: an event loop refers to its tasks only weakly."""


class GangTrigger(BaseTrigger):
    """Controls one gang through all its repeats.

    A triggerer that is started again runs it again: finished repeats are found, a running one is
    watched further. Ended by a person (failed, cleared, marked success), it ends the gang.

    On the last try, after which Airflow will not retry, a gang that cannot be controlled is
    recorded as failed. `project` is the folder of the DAG file's project, because a triggerer
    reads no DAG files.
    """

    def __init__(
        self,
        nightbench_run: str,
        case_id: str,
        generation: int,
        last_try: bool = True,
        project: str = "",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Airflow's has no types
        self.nightbench_run = nightbench_run
        self.case_id = case_id
        self.generation = generation
        self.last_try = last_try
        self.project = project
        self._epoch: int | None = None
        self._ending: asyncio.Task[None] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """As Airflow stores it."""
        return (
            "nightbench.orchestration.gang_trigger.GangTrigger",
            {name: getattr(self, name) for name in _ARGUMENTS},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Control the gang; one event, which ends the task."""
        logging.getLogger("asyncssh").setLevel(logging.WARNING)
        store = self._store()
        try:
            outcome = await self._control_in_own_task(store)
        except asyncio.CancelledError as ended:
            # Airflow says so with a message before it calls `on_kill`; but it cancels anew every
            # second, and a call that a busy triggerer has not reached by then never comes.
            if ended.args:
                self._begin_to_end_gang()
            raise
        except UserError as error:
            self.log.error("%s: %s", self.case_id, error)
            if self.last_try:
                why, faults = [reason_of(error)], faults_of(error)
                await asyncio.to_thread(store.end, CaseStatus.FAILED, why, faults)
            yield TaskFailedEvent()
            return
        except Exception as defect:
            # A defect: the case stores it as its reason, and Airflow logs the traceback.
            if self.last_try:
                await asyncio.to_thread(store.end, CaseStatus.FAILED, [reason_of_defect(defect)])
            raise
        self.log.info("%s %s: %s", self.case_id, outcome.status, outcome.why or "measured")
        if outcome.status is CaseStatus.OK:
            result = summary(self.case_id, self.generation, outcome.status)
            yield TaskSuccessEvent(xcoms={"return_value": result})
        elif outcome.status is CaseStatus.LEFT_OUT:
            yield TaskSkippedEvent()
        else:
            yield TaskFailedEvent()

    async def on_kill(self) -> None:
        """A person ended the task: end the gang on its nodes, and say so in the spool."""
        # Airflow cancels a trigger anew every second until it has ended, this method included.
        await asyncio.shield(self._begin_to_end_gang())

    def _begin_to_end_gang(self) -> asyncio.Task[None]:
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_gang())
            _ending.add(self._ending)
            self._ending.add_done_callback(_ending.discard)
        return self._ending

    async def _end_gang(self) -> None:
        store = self._store()
        if self._epoch is not None and await asyncio.to_thread(store.epoch) > self._epoch:
            # Airflow also cancels this way if it gave the trigger to another triggerer.
            self.log.warning("%s: another triggerer controls its gang", self.case_id)
            return
        by_whom = "by a user in Airflow"
        try:
            async with asyncio.timeout(END_S):
                planned, targets = await self._look_up()
                report = await cancel(planned.job, targets, by_whom, store)
            killed = sum(len(pids) for pids in report.killed.values())
            self.log.info("%s cancelled; %d processes were ended", self.case_id, killed)
        except (UserError, TimeoutError) as error:
            # A node that does not answer ends its processes when the lease expires.
            self.log.error("%s: %s", self.case_id, str(error) or f"not ended within {END_S:.0f} s")
        finally:
            reason = Reason(ReasonCode.CANCELLED, observed=by_whom)
            await asyncio.to_thread(store.end, CaseStatus.CANCELLED, [reason])

    async def _control_in_own_task(self, store: CaseStore) -> CaseOutcome:
        """Control the gang in its own task, so that Airflow's cancel message reaches this one.

        Without the message, which `asyncio.gather` may lose, Airflow does not call `on_kill`.
        """
        work = asyncio.create_task(self._control(store))
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()
            await asyncio.wait([work])
        return work.result()

    async def _control(self, store: CaseStore) -> CaseOutcome:
        planned, targets = await self._look_up()
        logger = asyncio.create_task(self._log_progress())
        try:
            async with asyncio.timeout(time_limit_s(planned.job)):
                return await run_gang(
                    planned.job,
                    targets,
                    store,
                    self._on_event,
                    throughput_of=partial(throughput_of, planned.job.case),
                    shipment=await self._shipment(planned),
                )
        except TimeoutError:
            limit = f"{time_limit_s(planned.job) / 3600:.1f} h"
            reason = Reason(ReasonCode.TIME_LIMIT, expected=limit)
            try:
                await cancel(planned.job, targets, f"not measured within {limit}")
            finally:
                # Also if a node does not answer: its processes end when the lease expires.
                await asyncio.to_thread(store.end, CaseStatus.FAILED, [reason])
            return CaseOutcome(CaseStatus.FAILED, (reason,))
        except Superseded as error:
            # Another triggerer has taken over; this trigger ends with the same outcome.
            self.log.warning("%s", error)
            known = await self._outcome_of_another(store)
            if known is not None:
                return CaseOutcome.from_json(known)
            self.log.warning("The other triggerer has stopped writing progress: taking over again")
        except Exception:
            if self.last_try:
                await delete_pods_of(planned.job, targets, self._on_event)
            raise
        finally:
            logger.cancel()
            with suppress(asyncio.CancelledError):
                await logger
        return await self._control(store)

    async def _outcome_of_another(self, store: CaseStore) -> dict[str, Any] | None:
        """Return the outcome from another controller; None if it no longer answers."""
        last, changed_s = await asyncio.to_thread(store.progress), time.monotonic()
        while (known := await asyncio.to_thread(store.outcome)) is None:
            await asyncio.sleep(POLL_S)
            found = await asyncio.to_thread(store.progress)
            if found != last:
                last, changed_s = found, time.monotonic()
            elif time.monotonic() - changed_s > SILENT_S:
                return None
        return known

    async def _look_up(self) -> tuple[PlannedJob, dict[str, Target]]:
        until_s = time.monotonic() + LOOK_UP_S
        while True:
            try:
                run = open_spool().run(self.nightbench_run)
                planned = await asyncio.to_thread(load_job, run, self.case_id, self.generation)
                return planned, await ssh_targets_async(planned.cluster, self.project)
            except UserError as error:
                if time.monotonic() > until_s:
                    raise
                self.log.warning("%s: %s; looked up again in %d s", self.case_id, error, POLL_S)
            await asyncio.sleep(POLL_S)

    async def _shipment(self, planned: PlannedJob) -> Shipment | None:
        """Return the files for a new pod; None if nodes are machines, which are prepared."""
        if planned.cluster.kubernetes is None:
            return None
        cluster = await asyncio.to_thread(on_this_machine, planned.cluster, self.project)
        run, digest = open_spool().run(self.nightbench_run), planned.job.code_digest
        return await asyncio.to_thread(kept_shipment, run, digest, cluster.environments.wheelhouse)

    async def _log_progress(self) -> None:
        run = open_spool().run(self.nightbench_run)
        view = await asyncio.to_thread(LiveView, run, self.log.info, cases=[self.case_id])
        while True:
            await asyncio.sleep(POLL_S)
            await asyncio.to_thread(view.refresh)

    def _on_event(self, event: GangEvent) -> None:
        self._epoch = event.epoch or self._epoch
        self.log.info("%s", event)

    def _store(self) -> CaseStore:
        return open_spool().run(self.nightbench_run).case(self.case_id, self.generation)


def reason_of_defect(defect: Exception) -> Reason:
    """Why a case failed whose gang could not be controlled for an unexpected reason."""
    said = f"a defect of Nightbench; see the log of this task: {defect!r}"
    return Reason(ReasonCode.CONTROLLER_ERROR, observed=said)


def time_limit_s(job: JobSpec) -> float:
    """How long a case may take, with waiting for nodes, in seconds."""
    once = job.limits.repeat_s + job.limits.ready_s + job.limits.lease_s
    launches = job.protocol.repeats
    if job.neighbours.action != "record":
        launches += job.neighbours.budget
    if job.neighbours.action == "wait":
        once += job.neighbours.wait_s
    return WAIT_S + launches * once


def summary(case_id: str, generation: int, status: str) -> dict[str, Any]:
    """The XCom of a measured case: results go through the spool."""
    return {"case_id": case_id, "generation": generation, "status": str(status)}
