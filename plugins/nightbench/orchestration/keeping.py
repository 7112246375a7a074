"""The DAG that keeps house: waiting runs, retention, orphans on the nodes."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowException

from nightbench.core.errors import UserError
from nightbench.orchestration import places
from nightbench.orchestration.heads import cluster_names
from nightbench.orchestration.shared import DEFAULTS, MEDIANS, OWNER, START, state_of_runs
from nightbench.orchestration.texts import MAINTENANCE_DOC

STACK = "NIGHTBENCH_STACK"
"""Marks every process of a deployment that `nightbench up` made."""

log = logging.getLogger(__name__)


def maintenance_dag() -> DAG:
    """The DAG of retention and of the orphan sweep."""
    clusters = cluster_names(places.dags_folder())
    with DAG(
        "nightbench_maintenance",
        schedule="30 12 * * *",
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=4),
        default_args={**DEFAULTS, "owner": OWNER},
        params={
            "spool_days": Param(90, type="integer", minimum=1, title="Days to keep loaded runs"),
            "log_days": Param(30, type="integer", minimum=1, title="Days to keep task logs"),
            "node_days": Param(
                60, type="integer", minimum=1, title="Days to keep what nodes do not use"
            ),
            "clusters": Param(
                None,
                type=["null", "array"],
                items={"type": "string"},
                examples=clusters,
                title="Clusters to look at",
                description="Nodes of these are swept and cleaned. Empty: of all clusters.",
            ),
        },
        # Where `nightbench up` made the whole deployment it keeps house from the start. In
        # somebody's own Airflow it waits to be asked: it expires task logs of all DAGs there.
        is_paused_upon_creation=False if os.environ.get(STACK) else None,
        description="Retention of spool and logs, orphan sweep",
        doc_md=MAINTENANCE_DOC,
        tags=["nightbench", "maintenance"],
    ) as dag:
        waiting = load_waiting()
        waiting >> expire_files()
        tell_leftovers()
        deadlines_are_checked()
        sweep.expand(cluster=clusters_to_sweep())
    return dag


@task(outlets=[MEDIANS], retries=2)
def load_waiting(**context: Any) -> list[str]:
    """Load runs that wait in the spool, also those whose DAG run was ended from outside."""
    from airflow.sdk.exceptions import AirflowSkipException

    from nightbench.orchestration import runs

    runs.close_ended(state_of_runs(context))
    runs.close_abandoned(datetime.now(UTC))
    try:
        loaded = runs.ingest(None)
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
    if not loaded:
        raise AirflowSkipException("no run waits in the spool")
    context["outlet_events"][MEDIANS].extra = {"run_ids": loaded}
    return loaded


@task(retries=2)
def tell_leftovers() -> int:
    """Give up confirmations that did not end in time; send the messages that no night has sent."""
    from nightbench.orchestration import confirming, runs

    try:
        confirming.give_up_late()
        return runs.tell_leftovers()
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None


@task
def deadlines_are_checked() -> None:
    """Fail where nobody has checked deadlines for an hour: who watches the watchdog."""
    from nightbench.orchestration import deadlines

    try:
        deadlines.complain_if_unchecked()
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None


@task(trigger_rule="all_done")
def expire_files(**context: Any) -> dict[str, int]:
    """Remove loaded runs and task logs that are older than their time."""
    from nightbench.orchestration import housekeeping

    return {
        "runs": housekeeping.expire_spool(context["params"]["spool_days"]),
        "logs": housekeeping.expire_logs(context["params"]["log_days"]),
    }


@task
def clusters_to_sweep(**context: Any) -> list[str]:
    """The clusters that the form names; all where it names none."""
    named = context["params"].get("clusters")
    return list(named or cluster_names(places.dags_folder()))


@task(
    map_index_template="{{ cluster }}",
    max_active_tis_per_dagrun=1,
    execution_timeout=timedelta(hours=1),
)
def sweep(cluster: str, **context: Any) -> dict[str, Any]:
    """End orphans and remove what is old on the nodes of one cluster."""
    from nightbench.orchestration import housekeeping

    context["cluster"] = cluster
    try:
        return housekeeping.sweep_cluster(cluster, context["params"]["node_days"])
    except UserError as error:
        log.error("%s", error)
        raise AirflowException(str(error)) from None
