"""What all DAGs have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, AssetAlias

MEDIANS = Asset("nightbench_medians", uri="x-nightbench://warehouse/marts/fct_measurement")
"""Updated when a run has been loaded; its event's extra holds `run_ids`."""

SUSPECTS = Asset("nightbench_suspects", uri="x-nightbench://suspects")
"""Updated when a night's regressions are to be measured again; its event's extra holds `run_ids`.
"""
MAY_SUSPECT = AssetAlias("nightbench_suspects")
"""What a task names that updates `SUSPECTS` only where there are any."""

START = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = "nightbench"
log = logging.getLogger(__name__)
DEFAULTS: dict[str, Any] = {
    "retries": 1,
    "retry_delay": timedelta(seconds=30),
    "execution_timeout": timedelta(minutes=30),
}


def state_of_runs(context: Mapping[str, Any]) -> Callable[[str, str], str | None]:
    """What asks Airflow for the state of a DAG run."""
    from airflow.sdk import DagRunState
    from airflow.sdk.exceptions import AirflowRuntimeError

    def state_of(dag_id: str, dag_run_id: str) -> str | None:
        try:
            # An enumeration, in spite of its annotation: its text is the value's name.
            return str(DagRunState(context["ti"].get_dagrun_state(dag_id, dag_run_id)).value)
        except AirflowRuntimeError as error:
            log.info("Airflow does not know DAG run %s of %s: %s", dag_run_id, dag_id, error)
            return None

    return state_of
