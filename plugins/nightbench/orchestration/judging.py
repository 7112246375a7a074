"""The DAG that judges what was loaded."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowException

from nightbench.errors import UserError
from nightbench.orchestration.shared import DEFAULTS, MAY_SUSPECT, MEDIANS, OWNER, START, SUSPECTS
from nightbench.orchestration.texts import REGRESSIONS_DOC

log = logging.getLogger(__name__)


def regressions_dag() -> DAG:
    """The DAG that judges what was loaded."""
    with DAG(
        "nightbench_regressions",
        schedule=[MEDIANS],
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=2),
        default_args={**DEFAULTS, "owner": OWNER, "retries": 2},
        params={
            "run_ids": Param(
                None,
                type=["null", "array"],
                items={"type": "string"},
                title="Runs",
                description="Judge these runs again. Empty: those that were loaded just now.",
            )
        },
        # It only ever runs when something was loaded: paused it would leave runs without verdicts.
        is_paused_upon_creation=False,
        description="A verdict for every planned case, alerts, a digest",
        doc_md=REGRESSIONS_DOC,
        tags=["nightbench", "verdicts"],
    ) as dag:
        judge()
    return dag


@task(
    outlets=[MAY_SUSPECT],
    doc_md="Judges each run that was loaded; what is news is sent once, suspects wait.",
)
def judge(**context: Any) -> dict[str, Any]:
    """Judge the runs that the asset's events name, or the form."""
    from nightbench.orchestration import confirming, runs

    wanted = list(context["params"].get("run_ids") or [])
    for events in (context.get("triggering_asset_events") or {}).values():
        for event in events:
            wanted += (event.extra or {}).get("run_ids", [])
    sentences = {}
    try:
        for run_id in dict.fromkeys(wanted):
            sentences[run_id] = runs.judge(run_id)
        doubted = confirming.waiting_runs(wanted)
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
    if doubted:
        context["outlet_events"][MAY_SUSPECT].add(SUSPECTS, extra={"run_ids": doubted})
    return sentences
