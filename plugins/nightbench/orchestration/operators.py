"""The operators of a run: one plans it, one measures a case."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from nightbench.config import locations
from nightbench.config.clusters import on_this_machine
from nightbench.config.run_request import RunRequest
from nightbench.config.validate import checked
from nightbench.core.budget import clock, duration
from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseStatus,
    JobSpec,
    Reason,
    ReasonCode,
    RunKind,
    reasons_from_json,
)
from nightbench.core.run_plan import new_run_id
from nightbench.core.sentences import sentence, sentences
from nightbench.night.planning import TooLateForNight, night_start, open_now, plan_run
from nightbench.orchestration.connections import connect
from nightbench.orchestration.dag_common import is_last_try, user_errors_fail_task
from nightbench.spool import CaseStore, RunSpool, open_spool
from nightbench.spool.plans import PlannedJob, load_job, save_job

if TYPE_CHECKING:
    from airflow.sdk import Context

    from nightbench.gang import GangEvent

RUN = "nightbench_run"
"""Key of the XCom that holds the run's id, also if the night had room for no case."""


class PlanOperator(BaseOperator):
    """Plans a run; returns one entry for each case that is measured.

    A scheduled run whose night has not begun defers until it does. Without a suite the form says
    which.
    """

    ui_color = "#e8f3e8"

    def __init__(self, *, suite: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.suite = suite

    def execute(self, context: Context) -> list[dict[str, str]]:
        """Plan, or wait for the night first.

        Raises:
            AirflowFailException: it cannot run as requested.
            AirflowSkipException: a scheduled run comes too late for its night.
        """
        from nightbench.accept.states import accepting_catalog

        with user_errors_fail_task(for_good=True):
            request = self._request(context)
            now, is_new = datetime.now(UTC), self._is_new(context)
            try:
                begin = night_start(request, now, accepting_catalog(connect)) if is_new else None
            except TooLateForNight as error:
                if request.run_kind is not RunKind.NIGHTLY:
                    raise
                # After a DAG is unpaused, Airflow starts its last missed run, usually by day.
                self.log.warning("%s", error)
                raise AirflowSkipException(str(error)) from None
        if begin is not None:
            self._wait(begin)
        return self._plan(context)

    def opened(self, context: Context, event: Any = None) -> list[dict[str, str]]:
        """Plan: the night has begun.

        Raises:
            AirflowFailException: it cannot run as requested.
        """
        self.log.info("the night has begun: %s", event)
        return self._plan(context)

    def _request(self, context: Context) -> RunRequest:
        if self.suite is None:
            return checked(RunRequest, dict(context["params"]))
        run_type = context["dag_run"].run_type
        name = str(getattr(run_type, "value", run_type))
        if name == "scheduled":
            return RunRequest(self.suite, run_kind=RunKind.NIGHTLY, night=True)
        return RunRequest(
            self.suite, run_kind=RunKind.BACKFILL if name == "backfill" else RunKind.ON_DEMAND
        )

    def _is_new(self, context: Context) -> bool:
        """Return whether this is a new run: a retry continues its run, a clear begins a new one."""
        dag_run = context["dag_run"]
        planned = open_spool().planned_by(dag_run.dag_id, dag_run.run_id)
        return planned is None or _was_cleared(planned, context["ti"].max_tries)

    def _wait(self, begin: datetime) -> None:
        from airflow.providers.standard.triggers.temporal import DateTimeTrigger

        self.log.info("waiting for the night, which begins at %s", begin.isoformat())
        wait = begin - datetime.now(UTC)
        self.defer(
            trigger=DateTimeTrigger(moment=begin),
            method_name="opened",
            timeout=wait + timedelta(hours=1),
        )

    def _plan(self, context: Context) -> list[dict[str, str]]:
        from nightbench.accept.states import accepting_catalog

        dag_run, spool = context["dag_run"], open_spool()
        named = dag_run.dag_id, dag_run.run_id
        with user_errors_fail_task(for_good=True):
            request = self._request(context)
            if self._is_new(context):
                now = datetime.now(UTC)
                new = {"run_id": new_run_id(request.suite, now), "started_at": now.isoformat()}
                spool.save_planned_by(*named, {**new, "max_tries": context["ti"].max_tries})
            planned: Any = spool.planned_by(*named)
            cases = plan_run(
                request,
                planned["run_id"],
                datetime.fromisoformat(planned["started_at"]),
                spool,
                connect,
                accepting_catalog(connect),
                requested_by=dag_run.triggering_user_name or "",
                most_cases=conf.getint("core", "max_map_length", fallback=1024),
                dag_id=dag_run.dag_id,
                dag_run_id=dag_run.run_id,
            )
        context["ti"].xcom_push(key=RUN, value=planned["run_id"])
        return [{"nightbench_run": planned["run_id"], "case_id": case} for case in cases]


PREPARE_TIMEOUT = timedelta(hours=3)
"""For shipping and provisioning; a framework's environment can take an hour on a slow link."""


def generation_of_try(stored: Mapping[str, Any] | None, max_tries: int) -> int:
    """Return which generation of its case a try measures; `stored` is from the try before.

    An automatic retry continues the job that is there; a person's clear measures again.
    """
    if stored is None:
        return 0
    return int(stored["generation"]) + _was_cleared(stored, max_tries)


def _was_cleared(stored: Mapping[str, Any], max_tries: int) -> bool:
    """Return whether a person cleared the task, which raises `max_tries`; a retry does not."""
    return bool(max_tries > stored["max_tries"])


class GangOperator(BaseOperator):
    """Measures one case of a planned run.

    `execute` ships code, provisions the nodes and writes the job directories; nothing is launched
    there. It remembers the job before that, so that a retry finds it again, and defers to a
    trigger that controls the gang and ends the task itself.
    """

    template_fields = ("nightbench_run", "case_id")
    ui_color = "#dbe9f6"

    def __init__(self, *, nightbench_run: str, case_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.nightbench_run = nightbench_run
        self.case_id = case_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Prepare the gang and defer; returns only if the case has been measured already.

        Raises:
            AirflowFailException: the case failed for good; only a clear measures it again.
            AirflowException: preparing failed in a way that a retry may fix.
            AirflowSkipException: the night has no room for the case.
        """
        from nightbench.night.run_preflight import place_around_unhealthy
        from nightbench.orchestration.gang_trigger import (
            GangTrigger,
            reason_of_defect,
            time_limit_s,
        )

        run = open_spool().run(self.nightbench_run)
        generation = self._generation(context, run)
        store = run.case(self.case_id, generation)
        outcome = store.outcome()
        if outcome is not None:
            return self._ended_before(outcome, generation)
        planned: PlannedJob | None = None
        try:
            planned = load_job(run, self.case_id, generation)
            if generation > 0:
                planned = job_after_clear(run, planned, datetime.now(UTC))
            elif store.job() is None:
                # A retry continues where its repeats are; a user who clears wants these nodes.
                planned = place_around_unhealthy(run, planned)
            self._leave_out_if_late(planned.job, store)
            store.save_job(planned.job.to_json())
            store.save_progress({"state": "provisioning", "message": "preparing the nodes"})
            self._prepare(planned, store)
        except UserError as error:
            self._failed(context, store, error, planned)
        except AirflowException:
            raise
        except Exception as defect:
            # A defect: the case stores it as its reason, and Airflow logs the traceback.
            if is_last_try(context):
                self._delete_pods(planned)
                store.end(CaseStatus.FAILED, [reason_of_defect(defect)])
            raise
        self.defer(
            trigger=GangTrigger(
                nightbench_run=self.nightbench_run,
                case_id=self.case_id,
                generation=planned.job.generation,
                last_try=is_last_try(context),
                project=str(locations.dags_folder().absolute()),
            ),
            method_name="ended",
            timeout=timedelta(seconds=time_limit_s(planned.job) + 600),
        )

    def ended(self, context: Context, event: Any = None) -> Any:
        """Never called: the trigger ends the task. Airflow wants the name of a method."""
        raise AirflowException(f"the trigger of {self.case_id} handed over: {event!r}")

    def _generation(self, context: Context, run: RunSpool) -> int:
        case_id, max_tries = self.case_id, context["ti"].max_tries
        generation = generation_of_try(run.tried(case_id), max_tries)
        run.save_tried(case_id, {"generation": generation, "max_tries": max_tries})
        self.log.info("run %s, case %s, generation %d", run.run_id, case_id, generation)
        return generation

    def _ended_before(self, outcome: Mapping[str, Any], generation: int) -> dict[str, Any]:
        from nightbench.orchestration.gang_trigger import summary

        if outcome["status"] == CaseStatus.OK:
            return summary(self.case_id, generation, outcome["status"])
        why = sentences(reasons_from_json(outcome["reasons"]))
        if outcome["status"] == CaseStatus.LEFT_OUT:
            raise AirflowSkipException(f"{self.case_id} was left out: {why}")
        raise AirflowFailException(
            f"{self.case_id} {outcome['status']}: {why}. A retry does not launch the case again; "
            f"clear the task to measure generation {generation + 1}"
        )

    def _leave_out_if_late(self, job: JobSpec, store: CaseStore) -> None:
        """End a case that the night has no room for any more before its nodes are touched."""
        from nightbench.gang.decisions import is_too_late

        # A case that has begun is ended by its gang, which knows how long repeats take.
        if job.deadline is None or store.repeats() or not is_too_late(job, (), datetime.now(UTC)):
            return
        usual = job.expected_repeat_s
        how = "takes about" if usual else "may take"
        takes = f"{how} {duration(usual or job.limits.repeat_s)}"
        reason = Reason(ReasonCode.NOT_BEGUN, subject=clock(job.deadline), observed=takes)
        self.log.warning("%s: %s", self.case_id, sentence(reason))
        store.end(CaseStatus.LEFT_OUT, [reason])
        raise AirflowSkipException(sentence(reason))

    def _prepare(self, planned: PlannedJob, store: CaseStore) -> None:
        from nightbench.gang import prepare
        from nightbench.night.code_snapshot import kept_shipment
        from nightbench.orchestration.ssh_targets import ssh_targets

        cluster = on_this_machine(planned.cluster)
        targets = ssh_targets(cluster)
        job = planned.job
        run = open_spool().run(self.nightbench_run)
        shipment = kept_shipment(run, job.code_digest, cluster.environments.wheelhouse)

        def log_event(event: GangEvent) -> None:
            self.log.info("%s", event)
            # Building an environment takes minutes: progress shows what is being done.
            store.save_progress({"state": "provisioning", "message": f"preparing: {event}"})

        asyncio.run(prepare(job, targets, shipment, log_event, store=store))

    def _failed(
        self, context: Context, store: CaseStore, error: UserError, planned: PlannedJob | None
    ) -> NoReturn:
        from nightbench.gang import EnvironmentUnavailable, NodeUnreachable, faults_of, reason_of
        from nightbench.night.run_preflight import CaseUnplaced

        self.log.error("%s", error)
        if isinstance(error, NodeUnreachable) and not is_last_try(context):
            raise AirflowException(str(error)) from None
        self._delete_pods(planned)
        away = isinstance(error, EnvironmentUnavailable)
        status = CaseStatus.UNAVAILABLE if away else CaseStatus.FAILED
        reasons = error.reasons if isinstance(error, CaseUnplaced) else (reason_of(error),)
        store.end(status, reasons, faults_of(error))
        raise AirflowFailException(str(error)) from None

    def _delete_pods(self, planned: PlannedJob | None) -> None:
        """Delete the pods of a case that has failed; an error of that is logged."""
        from nightbench.gang.pods import delete_pods_of
        from nightbench.orchestration.ssh_targets import ssh_targets

        if planned is None or planned.cluster.kubernetes is None:
            return

        def log_event(event: GangEvent) -> None:
            self.log.info("%s", event)

        try:
            targets = ssh_targets(on_this_machine(planned.cluster))
        except UserError as error:
            self.log.error("the pods of %s may stay: %s", self.case_id, error)
        else:
            asyncio.run(delete_pods_of(planned.job, targets, log_event))


def job_after_clear(run: RunSpool, planned: PlannedJob, now: datetime) -> PlannedJob:
    """The job of a case whose task a person has cleared: the night's end no longer counts.

    The hours of the cluster count, unless the run was requested outside of them.

    Raises:
        UserError: the cluster's hours do not hold now.
    """
    job = dataclasses.replace(planned.job, deadline=open_now(planned.cluster, now))
    changed = dataclasses.replace(planned, job=job)
    # Stored, because the triggerer reads the same job.
    save_job(run, changed, generation=job.generation)
    return changed
