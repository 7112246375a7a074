"""The first task of a run: waits for the night to begin, then stores the plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from nightbench.core.model import RunKind
from nightbench.orchestration.airflow_versions import AirflowSkipException
from nightbench.orchestration.connections import connect
from nightbench.orchestration.dag_common import user_errors_fail_task

if TYPE_CHECKING:
    from airflow.sdk import Context

    from nightbench.config.run_request import RunRequest

RUN = "nightbench_run"
"""Key of the XCom that holds the run's id, also where the night had room for no case."""


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
        from nightbench.night.planning import TooLateForNight, night_start

        with user_errors_fail_task(for_good=True):
            request = self._request(context)
            now, is_new = datetime.now(UTC), self._is_new(context)
            try:
                begin = night_start(request, now, connect) if is_new else None
            except TooLateForNight as error:
                if request.run_kind is not RunKind.NIGHTLY:
                    raise
                # Airflow makes up for a missed night when a DAG is unpaused: by day, mostly.
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
        from nightbench.config.run_request import RunRequest

        if self.suite is None:
            return RunRequest.from_params(dict(context["params"]))
        run_type = context["dag_run"].run_type
        name = str(getattr(run_type, "value", run_type))
        if name == "scheduled":
            return RunRequest(self.suite, run_kind=RunKind.NIGHTLY, night=True)
        kind = RunKind.BACKFILL if name == "backfill" else RunKind.ON_DEMAND
        return RunRequest(self.suite, run_kind=kind)

    def _is_new(self, context: Context) -> bool:
        """Whether this is a new run: a retry goes on with the same, a clear begins another."""
        from nightbench.spool import open_spool

        dag_run = context["dag_run"]
        planned = open_spool().planned_by(dag_run.dag_id, dag_run.run_id)
        # A clear raises max_tries, a retry does not.
        return planned is None or bool(context["ti"].max_tries > planned["max_tries"])

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
        from nightbench.core.run_plan import new_run_id
        from nightbench.night.planning import plan_run
        from nightbench.spool import open_spool

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
                requested_by=dag_run.triggering_user_name or "",
                dag_id=dag_run.dag_id,
                dag_run_id=dag_run.run_id,
            )
        context["ti"].xcom_push(key=RUN, value=planned["run_id"])
        return [{"nightbench_run": planned["run_id"], "case_id": case} for case in cases]
