"""The operator that measures one case: prepares on a worker, then defers to `GangTrigger`."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, JobSpec
from nightbench.orchestration import places
from nightbench.orchestration.generations import KEY, Memory, recall

if TYPE_CHECKING:
    from airflow.sdk import Context

    from nightbench.gang import GangEvent
    from nightbench.orchestration.jobs import PlannedJob
    from nightbench.spool import CaseStore, RunSpool

PREPARE_TIMEOUT = timedelta(hours=3)
"""For shipping and provisioning; a framework's environment can take an hour on a slow link."""

WAIT_S = 12 * 3600.0
"""How long a gang may wait for nodes that others hold."""

REMEMBER = timedelta(days=90)


class GangOperator(BaseOperator):
    """Measures one case of a planned run.

    `execute` ships code, provisions the nodes and writes the job directories; nothing is launched
    there. It remembers the job before that, so that a retry finds it again, and defers to a
    trigger that steers the gang and ends the task itself.

    Args:
        nightbench_run: id of the run, whose plan lies in the spool.
        case_id: the case.
        kwargs: of `BaseOperator`.
    """

    template_fields = ("nightbench_run", "case_id")
    ui_color = "#dbe9f6"

    def __init__(self, *, nightbench_run: str, case_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.nightbench_run = nightbench_run
        self.case_id = case_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Prepare the gang and defer; returns only where the case has been measured already.

        Raises:
            AirflowFailException: the case failed for good; only a clear measures it again.
            AirflowException: preparing failed in a way that a retry may mend.
            AirflowSkipException: the night has no room for the case.
        """
        from nightbench.orchestration.jobs import load_job
        from nightbench.orchestration.nodes import around_ill_nodes

        memory = self._remember(context)
        run = places.spool().run(self.nightbench_run)
        store = run.case(self.case_id, memory.generation)
        outcome = store.outcome()
        if outcome is not None:
            return self._ended_before(outcome, memory)
        try:
            planned = load_job(run, self.case_id, memory.generation)
            if memory.generation > 0:
                planned = asked_now(run, planned, datetime.now(UTC))
            elif store.job() is None:
                # A retry goes on where its repeats are; a person who clears means these nodes.
                planned = around_ill_nodes(run, planned)
            self._leave_out_if_late(planned.job, store)
            store.save_job(planned.job.to_json())
            store.save_progress({"state": "provisioning", "message": "preparing the nodes"})
            self._prepare(planned, store)
        except UserError as error:
            self._failed(context, store, error)
        self.defer(
            trigger=self._trigger(context, planned.job),
            method_name="ended",
            timeout=timedelta(seconds=time_limit_s(planned.job) + 600),
        )

    def ended(self, context: Context, event: Any = None) -> Any:
        """Never called: the trigger ends the task. Airflow wants the name of a method."""
        raise AirflowException(f"the trigger of {self.case_id} handed over: {event!r}")

    def _remember(self, context: Context) -> Memory:
        state = context["task_state_store"]
        memory = recall(state.get(KEY), self.nightbench_run, context["ti"].max_tries)
        state.set(KEY, memory.to_json(), retention=REMEMBER)
        self.log.info(
            "run %s, case %s, generation %d", memory.run_id, self.case_id, memory.generation
        )
        return memory

    def _ended_before(self, outcome: Mapping[str, Any], memory: Memory) -> dict[str, Any]:
        if outcome["status"] == CaseStatus.OK:
            return summary(self.case_id, memory.generation, outcome["status"])
        if outcome["status"] == CaseStatus.LEFT_OUT:
            raise AirflowSkipException(f"{self.case_id} was left out: {outcome.get('reason')}")
        raise AirflowFailException(
            f"{self.case_id} {outcome['status']}: {outcome.get('reason')}. A retry does not "
            f"launch it again; clear the task to measure generation {memory.generation + 1}"
        )

    def _leave_out_if_late(self, job: JobSpec, store: CaseStore) -> None:
        """End a case that the night has no room for any more before its nodes are touched."""
        from nightbench.core.budget import clock, duration
        from nightbench.gang.stopping import too_late

        # A case that has begun is ended by its gang, which knows what its repeats took.
        if job.deadline is None or store.repeats() or not too_late(job, (), datetime.now(UTC)):
            return
        usual = job.expected_repeat_s
        how = "takes about" if usual else "may take"
        takes = f"{how} {duration(usual or job.limits.repeat_s)}"
        reason = f"not begun: the night ends at {clock(job.deadline)}, and a repeat {takes}"
        self.log.warning("%s: %s", self.case_id, reason)
        record_failure(store, reason, CaseStatus.LEFT_OUT)
        raise AirflowSkipException(reason)

    def _prepare(self, planned: PlannedJob, store: CaseStore) -> None:
        from nightbench.gang import prepare
        from nightbench.orchestration.connections import ssh_targets

        targets = ssh_targets(planned.cluster)
        shipment = places.shipment(planned.job.environments.wheelhouse)

        def hear(event: GangEvent) -> None:
            said = f"{event.node}: {event.message}" if event.node else event.message
            self.log.info("%s", said)
            # Building an environment takes minutes: whoever waits sees what is being done.
            store.save_progress({"state": "provisioning", "message": f"preparing: {said}"})

        asyncio.run(prepare(planned.job, targets, shipment, hear))

    def _failed(self, context: Context, store: CaseStore, error: UserError) -> NoReturn:
        from nightbench.gang import EnvironmentUnavailable, NodeUnreachable

        self.log.error("%s", error)
        if isinstance(error, NodeUnreachable) and not is_last_try(context):
            raise AirflowException(str(error)) from None
        away = isinstance(error, EnvironmentUnavailable)
        status = CaseStatus.UNAVAILABLE if away else CaseStatus.FAILED
        record_failure(store, str(error), status, error)
        raise AirflowFailException(str(error)) from None

    def _trigger(self, context: Context, job: JobSpec) -> Any:
        from nightbench.orchestration.trigger import GangTrigger

        return GangTrigger(
            nightbench_run=self.nightbench_run,
            case_id=self.case_id,
            generation=job.generation,
            last_try=is_last_try(context),
        )


def asked_now(run: RunSpool, planned: PlannedJob, now: datetime) -> PlannedJob:
    """The job of a case that a person has cleared: the night's end no longer counts.

    What counts are the hours of the cluster, unless the run was asked for outside of them.

    Raises:
        UserError: the cluster's hours do not hold now.
    """
    from nightbench.night.window import open_now
    from nightbench.orchestration.jobs import save_job

    span = open_now(planned.cluster, now)
    job = dataclasses.replace(planned.job, deadline=span.end if span else None)
    changed = dataclasses.replace(planned, job=job)
    # The triggerer reads it as well.
    save_job(run, changed, generation=job.generation)
    return changed


def is_last_try(context: Context) -> bool:
    """Whether Airflow will not retry after this try."""
    return bool(context["ti"].try_number > context["ti"].max_tries)


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


def record_failure(
    store: CaseStore,
    reason: str,
    status: CaseStatus = CaseStatus.FAILED,
    because: BaseException | None = None,
) -> None:
    """Say in the spool that the case ended without a gang's outcome, unless it has one.

    Args:
        store: the case's files.
        reason: one sentence.
        status: how it ended.
        because: the error; one of a node counts as a fault of that node.
    """
    from nightbench.gang import faults_of, node_faults
    from nightbench.spool import utc_now

    if store.outcome() is None:
        store.save_outcome(
            {
                "status": str(status),
                "reason": reason,
                "repeats": [
                    {"repeat": number, "status": record["status"], "reason": record.get("reason")}
                    for number in store.repeats()
                    if (record := store.repeat(number)) is not None
                ],
                "ended_at": utc_now(),
                **node_faults(faults_of(because) if because else {}),
            }
        )
