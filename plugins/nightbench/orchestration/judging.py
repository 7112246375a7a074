"""The DAG that judges what was loaded."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowException

from nightbench.core.errors import UserError
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
        dagrun_timeout=timedelta(hours=12),
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
        judged = judge.expand(loaded=loaded_runs())
        judged >> doubt()
        # The run's state says whether each was judged, and its message taken by a channel.
        judged >> EmptyOperator(task_id="all_judged", trigger_rule="none_failed")
    return dag


@task(doc_md="The runs that the asset's events name, or the form.")
def loaded_runs(**context: Any) -> list[str]:
    """Ids of the runs to judge, in the order in which they were loaded."""
    return _run_ids(context)


@task(
    # One after the other: who judges holds the lock of its cluster's alerts.
    max_active_tis_per_dagrun=1,
    map_index_template="{{ task.op_kwargs['loaded'] }}",
    doc_md="One task for each run that was loaded; what is news is sent once, suspects wait.",
)
def judge(loaded: str) -> str:
    """Judge one run; a retry also sends the message that no channel took."""
    from nightbench.orchestration import runs

    try:
        return runs.judge(loaded)
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None


@task(
    outlets=[MAY_SUSPECT],
    # A failed task's events are lost: what a run that was judged doubts must not hang on whether
    # another one could be judged, nor on whether a channel took its message.
    trigger_rule="all_done",
    doc_md="Asks for suspects to be measured again, whatever came of the messages.",
)
def doubt(**context: Any) -> list[str]:
    """Say which of the runs have suspects that their message waits for."""
    from nightbench.orchestration import confirming

    try:
        doubted = confirming.waiting_runs(_run_ids(context))
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
    if doubted:
        context["outlet_events"][MAY_SUSPECT].add(SUSPECTS, extra={"run_ids": doubted})
    return doubted


def _run_ids(context: Mapping[str, Any]) -> list[str]:
    wanted = list(context["params"].get("run_ids") or [])
    for events in (context.get("triggering_asset_events") or {}).values():
        for event in events:
            wanted += (event.extra or {}).get("run_ids", [])
    return list(dict.fromkeys(wanted))
