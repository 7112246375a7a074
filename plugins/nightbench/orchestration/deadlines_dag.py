"""The DAG that checks deadlines: nights that schedules promised and that brought nothing.

Airflow's own deadline alerts belong to a DAG run. This finds the night of which there is none:
its DAG is paused, it was never scheduled, or the scheduler was down.
"""

import dataclasses
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, task

from nightbench.orchestration.dag_common import (
    base_url,
    log_refused,
    our_dag,
    user_errors_fail_task,
)

DOC = """\
### Missing nights

Every quarter of an hour each suite with a schedule is held against what came of its nights. A
night that has brought nothing by its deadline (`night.deadline` of the suite; an hour after the
night's end unless given) is reported once, to the suite's channels: no run, a run that is not
finished, one that was not judged, or a whole cluster that is silent. What comes late ends it. A
suite whose DAG is paused promises nothing. `nightbench nights` lists them all.
"""

log = logging.getLogger(__name__)


def deadlines_dag() -> DAG:
    """The DAG that checks deadlines."""
    with our_dag(
        "nightbench_deadlines",
        schedule="*/15 * * * *",
        dagrun_timeout=timedelta(minutes=30),
        defaults={"execution_timeout": timedelta(minutes=10)},
        # It measures nothing; paused, a missing night would go unnoticed.
        is_paused_upon_creation=False,
        description="Reports missing nights: suites without a result by their deadline",
        doc_md=DOC,
        tags=["alerts"],
    ) as dag:
        check_deadlines()
    return dag


@task(doc_md="Holds every promised night against what came; a missing one is reported once.")
def check_deadlines(**context: Any) -> str:
    """Check all suites with a schedule; returns a line of summary."""
    from nightbench.night import missing_nights
    from nightbench.night.scheduled_suites import scheduled_suites
    from nightbench.orchestration.connections import channel_url, connect
    from nightbench.spool import open_spool

    with user_errors_fail_task():
        found = []
        for promise in scheduled_suites():
            paused = _is_paused(context, promise.dag_id)
            problem = promise.problem
            if paused is None:
                problem = problem or f"Airflow knows no DAG {promise.dag_id}"
            found.append(dataclasses.replace(promise, is_paused=bool(paused), problem=problem))
        checked = missing_nights.check_deadlines(
            found,
            open_spool(),
            connect,
            datetime.now(UTC),
            resolve=channel_url,
            base_url=base_url(),
        )
        log_refused(checked.deliveries)
        missing_nights.require_delivered(checked)
    log.info("%s", checked.sentence())
    return checked.sentence()


def _is_paused(context: Mapping[str, Any], dag_id: str) -> bool | None:
    """Whether a DAG is paused; None where Airflow has none.

    Airflow 3.1 does not say: there a DAG counts as paused, as it starts, until its first run.
    """
    from nightbench.orchestration.airflow_versions import AirflowRuntimeError

    ti = context["ti"]
    try:
        if not hasattr(ti, "get_dag"):
            return bool(ti.get_dr_count(dag_id) == 0)
        return bool(ti.get_dag(dag_id).is_paused)
    except AirflowRuntimeError as error:
        log.info("Airflow does not know the DAG %s: %s", dag_id, error)
        return None
