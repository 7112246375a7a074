"""The DAG of upkeep: missing nights; once a day messages, waiting runs, retention, orphans."""

import asyncio
import dataclasses
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSkipException

from nightbench.config import locations
from nightbench.config.clusters import cluster_of
from nightbench.config.control_plane import MARK
from nightbench.config.locations import find_clusters
from nightbench.core.atomic_files import remove_older
from nightbench.core.errors import UserError
from nightbench.core.sentences import KEPT_DAYS
from nightbench.night.scheduled_suites import scheduled_suites
from nightbench.orchestration.connections import channel_url, connect
from nightbench.orchestration.dag_common import (
    MEDIANS,
    base_url,
    dag_run_state,
    log_refused,
    optional_names,
    our_dag,
    user_errors_fail_task,
)
from nightbench.spool import open_spool

DAY_S = 86400.0

DAILY_AT = time(12, 30, tzinfo=UTC)

DOC = """\
### Upkeep

Every 15 minutes `check_deadlines` reports each night that has no result with a verdict at its
deadline: `night.deadline` of the suite [default: one hour after the end of the night]. The report
ends when a late result arrives. A suite whose DAG is paused has no deadlines. `nightbench nights`
lists all nights.

Once a day at 12:30 UTC, and when it is triggered, the DAG also loads runs that wait in the spool.
It then removes data that are older than the days of its form, ends orphaned processes of Nightbench
on the nodes, and sends unsent alert messages.
"""

log = logging.getLogger(__name__)


def upkeep_dag() -> DAG:
    """The DAG that checks deadlines, and once a day does all other upkeep."""
    clusters = list(find_clusters(locations.dags_folder()))
    with our_dag(
        "nightbench_upkeep",
        schedule="*/15 * * * *",
        # Deadlines are also checked while the daily work goes on; each task runs once at a time.
        max_active_runs=4,
        defaults={"max_active_tis_per_dag": 1},
        dagrun_timeout=timedelta(hours=4),
        params={
            "spool_days": Param(
                KEPT_DAYS, type="integer", minimum=1, title="Days to keep loaded runs"
            ),
            "detail_days": Param(
                KEPT_DAYS,
                type="integer",
                minimum=1,
                title="Days to keep step times in the warehouse",
                description="By whole months. Medians, repeats and verdicts are always kept.",
            ),
            # If Airflow has other DAGs, their logs are removed, too.
            "log_days": Param(
                30 if os.environ.get(MARK) else None,
                type=["null", "integer"],
                minimum=1,
                title="Days to keep task logs",
                description="Task logs of all DAGs of this Airflow. Leave empty to keep all logs.",
            ),
            "node_days": Param(
                60, type="integer", minimum=1, title="Days to keep unused environments on nodes"
            ),
            "clusters": optional_names(
                "Clusters to clean",
                "Clusters whose nodes are cleaned. Leave empty for all clusters.",
                examples=clusters,
            ),
        },
        # The DAG measures nothing. If it were paused, nobody would notice a missing night.
        is_paused_upon_creation=False,
        description="Reports missing nights; daily removes old data and sends unsent messages",
        doc_md=DOC,
        tags=["alerts", "maintenance"],
    ) as dag:
        check_deadlines()
        waiting, clusters_named = load_waiting(), clusters_to_sweep()
        is_daily_work_due() >> [waiting, send_unsent_messages(), clusters_named]
        waiting >> [expire_files(), drop_old_details()]
        sweep.expand(cluster=clusters_named)
    return dag


@task.short_circuit
def is_daily_work_due(**context: Any) -> bool:
    """Whether this run is the first since 12:30 UTC, or one that a person triggered."""
    run = context["dag_run"]
    previous = context["ti"].get_previous_dagrun() if run.run_type == "scheduled" else None
    if previous is None:
        return True
    daily = datetime.combine(run.run_after.astimezone(UTC), DAILY_AT)
    last = daily if daily <= run.run_after else daily - timedelta(days=1)
    return bool(previous.run_after < last)


@task(outlets=[MEDIANS], retries=2)
def load_waiting(**context: Any) -> list[str]:
    """Load runs that wait in the spool, also those whose DAG run was ended from outside."""
    from nightbench.night.ingest import close_ended, ingest_ended

    spool = open_spool()
    close_ended(spool, dag_run_state(context), datetime.now(UTC))
    with user_errors_fail_task():
        loaded = ingest_ended(spool, connect)
    if not loaded:
        raise AirflowSkipException("no run in the spool waits to be loaded")
    context["outlet_events"][MEDIANS].extra = {"run_ids": loaded}
    return loaded


@task(retries=2)
def send_unsent_messages() -> int:
    """Send the messages that no night has sent."""
    from nightbench.alerts import notify

    with user_errors_fail_task():
        deliveries, problems = notify.notify_leftovers(
            open_spool(), connect, notify.Notifier.of(channel_url, base_url())
        )
        log_refused(deliveries)
        if problems:
            raise UserError("\n".join(problems))
    return sum(delivery.sent for delivery in deliveries)


@task(trigger_rule="all_done")
def expire_files(**context: Any) -> dict[str, int]:
    """Remove loaded runs, staged wheels and task logs that are older than their time."""
    from nightbench.night.staged_wheels import UNUSED, remove_unused_wheels

    spool = open_spool()
    removed = spool.expire(context["params"]["spool_days"])
    for run_id in removed:
        log.info("removed run %s from the spool", run_id)
    logs = Path(conf.get("logging", "base_log_folder"))
    log_days = context["params"]["log_days"]
    expired = expire_logs(logs, log_days) if log_days else 0
    with user_errors_fail_task():
        now = datetime.now(UTC)
        # Uploads may go: a comparison keeps its own staged copy of each wheel that it uses.
        wheels = [*remove_unused_wheels(spool, now), *spool.uploads.expire(now - UNUSED)]
    for wheel in wheels:
        log.info("removed %s, which no run has used for a long time", wheel)
    return {"runs": len(removed), "logs": expired, "wheels": len(wheels)}


@task(trigger_rule="all_done")
def drop_old_details(**context: Any) -> list[str]:
    """Drop steps of ranks from the warehouse that are older than their time."""
    from nightbench.warehouse import opened

    with user_errors_fail_task(), opened(connect) as warehouse:
        dropped = warehouse.runs.drop_old_details(context["params"]["detail_days"])
    for name in dropped:
        log.info("emptied %s", name)
    return dropped


def expire_logs(folder: Path, days: float) -> int:
    """Remove logs of tasks and the DAG processor without a write in `days`; return how many."""
    paths = (path for path in folder.rglob("*") if path.is_dir() or path.suffix == ".log")
    oldest = datetime.now(UTC).timestamp() - days * DAY_S
    return remove_older((path for path in paths if not path.is_symlink()), oldest)


@task
def clusters_to_sweep(**context: Any) -> list[str]:
    """The clusters that the form names; all if it names none."""
    named = context["params"].get("clusters")
    return list(named or find_clusters(locations.dags_folder()))


@task(
    map_index_template="{{ cluster }}",
    execution_timeout=timedelta(hours=1),
)
def sweep(cluster: str, **context: Any) -> dict[str, Any]:
    """End orphans and remove what is old on the nodes of one cluster."""
    from nightbench.gang.cleanup import sweep_and_clean
    from nightbench.night.code_snapshot import shipment_of_now
    from nightbench.orchestration.ssh_targets import ssh_targets

    context["cluster"] = cluster
    with user_errors_fail_task():
        known = cluster_of(cluster)
        targets = ssh_targets(known)
        keep_days = context["params"]["node_days"]
        shipment = shipment_of_now(None, None)
        return asyncio.run(sweep_and_clean(known, targets, shipment, keep_days))


@task(
    execution_timeout=timedelta(minutes=10),
    doc_md="Compares the expected nights with the stored results; reports each missing night once.",
)
def check_deadlines(**context: Any) -> str:
    """Check all suites with a schedule; returns a line of summary."""
    from nightbench.night import missing_nights

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
    log.info("%s", checked)
    return checked


def _is_paused(context: Mapping[str, Any], dag_id: str) -> bool | None:
    """Return whether a DAG is paused; None if Airflow has no such DAG."""
    try:
        return bool(context["ti"].get_dag(dag_id).is_paused)
    except AirflowRuntimeError as error:
        log.info("Airflow does not know the DAG %s: %s", dag_id, error)
        return None
