"""The DAG that checks deadlines: what schedules promised and did not come.

Airflow's own deadline alerts belong to a DAG run. What this looks for is the night of which there
is none: paused, never scheduled, or the scheduler was down.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException

from nightbench.core.errors import UserError
from nightbench.orchestration.shared import DEFAULTS, OWNER, START
from nightbench.orchestration.texts import DEADLINES_DOC

log = logging.getLogger(__name__)


def deadlines_dag() -> DAG:
    """The DAG that checks deadlines."""
    with DAG(
        "nightbench_deadlines",
        schedule="*/15 * * * *",
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(minutes=30),
        default_args={**DEFAULTS, "owner": OWNER, "execution_timeout": timedelta(minutes=10)},
        # It measures nothing, and paused nobody would hear of a night that never was.
        is_paused_upon_creation=False,
        description="Tells of nights that are missing: suites without a result by their deadline",
        doc_md=DEADLINES_DOC,
        tags=["nightbench", "alerts"],
    ) as dag:
        check_deadlines()
    return dag


@task(doc_md="Holds every promised night against what came; each is told once.")
def check_deadlines(**context: Any) -> str:
    """Check all suites with a schedule."""
    from nightbench.orchestration import deadlines

    try:
        said = deadlines.check(is_paused(context))
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
    log.info("%s", said)
    return said


def is_paused(context: dict[str, Any]) -> Callable[[str], bool | None]:
    """What asks Airflow whether a DAG is switched off; None where it knows no such DAG."""
    from airflow.sdk.exceptions import AirflowRuntimeError

    def ask(dag_id: str) -> bool | None:
        try:
            return bool(context["ti"].get_dag(dag_id).is_paused)
        except AirflowRuntimeError as error:
            log.info("Airflow does not know the DAG %s: %s", dag_id, error)
            return None

    return ask
