"""The DAG that measures a suite, and its tasks before and after the cases."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from nightbench.core.errors import UserError
from nightbench.orchestration.operator import PREPARE_TIMEOUT, GangOperator
from nightbench.orchestration.plan_operator import RUN, PlanOperator
from nightbench.orchestration.shared import DEFAULTS, MEDIANS, OWNER, START, state_of_runs

RUN_TIMEOUT = timedelta(hours=23)
"""A nightly run has ended when the next night's begins."""

log = logging.getLogger(__name__)


def build_suite_dag(
    dag_id: str,
    *,
    suite: str | None = None,
    schedule: str | None = None,
    owner: str = OWNER,
    description: str = "",
    tags: Sequence[str] = (),
    doc_md: str = "",
    params: Mapping[str, Param] | None = None,
    paused: bool | None = None,
    at_once: int = 1,
) -> DAG:
    """A DAG that plans, looks at the nodes, measures and ingests.

    Args:
        dag_id: its name.
        suite: the suite; None where the form says which.
        schedule: cron expression or preset, in UTC.
        owner: shown in the UI.
        description: one line.
        tags: beside `nightbench`.
        doc_md: shown in the UI.
        params: fields of the trigger form.
        paused: whether it starts paused; as Airflow is configured when None.
        at_once: cases that may be measured at once; their nodes' locks keep those apart that
            share nodes.
    """
    with DAG(
        dag_id,
        schedule=schedule,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=RUN_TIMEOUT,
        default_args={**DEFAULTS, "owner": owner},
        params=dict(params or {}),
        is_paused_upon_creation=paused,
        description=description,
        doc_md=doc_md,
        tags=["nightbench", *tags],
    ) as dag:
        plan = PlanOperator(
            task_id="plan",
            suite=suite,
            doc_md="Checks what is asked for, fits it into the night, stores the plan of the run.",
        )
        planned = plan.output
        measured = GangOperator.partial(
            task_id="measure",
            max_active_tis_per_dagrun=at_once,
            map_index_template="{{ task.case_id }}",
            execution_timeout=PREPARE_TIMEOUT,
            doc_md="One task for each case; its log shows the gang's progress.",
        ).expand_kwargs(planned)
        # A task that takes another's output is typed by the value, not by the reference to it.
        preflight(planned) >> measured  # type: ignore[arg-type]
        loaded = ingest()
        # The run fails where a case failed, although the ingest loaded all that came back. What
        # the night had no room for is skipped, and no failure.
        all_measured = EmptyOperator(task_id="all_measured", trigger_rule="none_failed")
        measured >> loaded >> all_measured
        measured >> all_measured
    return dag


@task(
    execution_timeout=timedelta(minutes=20),
    doc_md="Looks at the nodes: ends orphans of ours, judges what it finds, leaves ill nodes out.",
)
def preflight(planned: list[dict[str, str]] | None) -> dict[str, Any]:
    """Examine the run's nodes and place its cases around those that are ill."""
    from nightbench.orchestration.nodes import examine_run

    return examine_run(planned[0]["nightbench_run"]) if planned else {}


@task(
    trigger_rule="all_done",
    outlets=[MEDIANS],
    # Half an hour in all: a warehouse that is restarted or failed over is back by then.
    retries=5,
    retry_delay=timedelta(minutes=1),
    retry_exponential_backoff=2.0,
    doc_md="Summarises, checks and loads what came back, whatever the cases' end.",
)
def ingest(**context: Any) -> dict[str, Any]:
    """Load the run, and others that wait; publishes the asset."""
    from nightbench.orchestration import runs

    # Asked for here, not as an argument: one that a refused plan never gave is an error there,
    # which would be tried again for half an hour.
    nightbench_run = context["ti"].xcom_pull(task_ids="plan", key=RUN)
    if not nightbench_run:
        raise AirflowSkipException("nothing was planned, so there is nothing to load")
    runs.close_ended(state_of_runs(context))
    try:
        loaded = runs.ingest(nightbench_run)
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
    context["outlet_events"][MEDIANS].extra = {"run_ids": loaded}
    return {"run_ids": loaded}
