"""The DAGs of upkeep: waiting runs, unsent messages, retention, orphans, and missing nights."""

import dataclasses
import logging
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSkipException

from nightbench.config import locations
from nightbench.config.control_plane import MARK
from nightbench.config.suite_heads import find_clusters
from nightbench.core.errors import UserError
from nightbench.core.sentences import KEPT_DAYS
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

DAY_S = 86400.0

DOC = """\
### Maintenance

Loads runs that wait in the spool, removes loaded runs, staged wheels, task logs, and steps in the
warehouse after their time, ends orphaned processes of ours on the nodes and removes environments
that nothing has used for long.
Only processes that carry our mark are ever ended. Sends the messages about alerts that no night
has sent.
"""

log = logging.getLogger(__name__)


def maintenance_dag() -> DAG:
    """The DAG of retention and of the orphan sweep."""
    clusters = list(find_clusters(locations.dags_folder()))
    with our_dag(
        "nightbench_maintenance",
        schedule="30 12 * * *",
        dagrun_timeout=timedelta(hours=4),
        params={
            "spool_days": Param(
                KEPT_DAYS, type="integer", minimum=1, title="Days to keep loaded runs"
            ),
            "detail_days": Param(
                KEPT_DAYS,
                type="integer",
                minimum=1,
                title="Days to keep the steps of ranks in the warehouse",
                description="Whole months. Medians, repeats and verdicts are kept for ever.",
            ),
            "log_days": Param(30, type="integer", minimum=1, title="Days to keep task logs"),
            "node_days": Param(
                60, type="integer", minimum=1, title="Days to keep what nodes do not use"
            ),
            "clusters": optional_names(
                "Clusters to sweep",
                "Nodes of these are swept and cleaned. Empty: of all clusters.",
                examples=clusters,
            ),
        },
        # Where `nightbench up` made the whole deployment, it runs from the start. In an Airflow
        # with other DAGs it starts paused: it removes task logs of all of them.
        is_paused_upon_creation=False if os.environ.get(MARK) else None,
        description="Retention of spool and logs, orphan sweep",
        doc_md=DOC,
        tags=["maintenance"],
    ) as dag:
        waiting = load_waiting()
        waiting >> expire_files()
        waiting >> drop_old_details()
        send_unsent_messages()
        deadlines_are_checked()
        sweep.expand(cluster=clusters_to_sweep())
    return dag


@task(outlets=[MEDIANS], retries=2)
def load_waiting(**context: Any) -> list[str]:
    """Load runs that wait in the spool, also those whose DAG run was ended from outside."""
    from nightbench.night.ingest import close_abandoned, close_ended, ingest_ended
    from nightbench.spool import open_spool

    spool = open_spool()
    close_ended(spool, dag_run_state(context), datetime.now(UTC))
    close_abandoned(spool, datetime.now(UTC))
    with user_errors_fail_task():
        loaded = ingest_ended(spool, connect)
    if not loaded:
        raise AirflowSkipException("no run waits in the spool")
    context["outlet_events"][MEDIANS].extra = {"run_ids": loaded}
    return loaded


@task(retries=2)
def send_unsent_messages() -> int:
    """Send the messages that no night has sent."""
    from nightbench.alerts import notify
    from nightbench.spool import open_spool

    with user_errors_fail_task():
        deliveries, problems = notify.notify_leftovers(
            open_spool(), connect, notify.Notifier.of(channel_url, base_url())
        )
        log_refused(deliveries)
        if problems:
            raise UserError("\n".join(problems))
    return sum(delivery.sent for delivery in deliveries)


@task
def deadlines_are_checked() -> None:
    """Fail where `nightbench_deadlines` has not checked anything for an hour."""
    from nightbench.night.missing_nights import require_recent_check

    with user_errors_fail_task():
        require_recent_check(connect, datetime.now(UTC))


@task(trigger_rule="all_done")
def expire_files(**context: Any) -> dict[str, int]:
    """Remove loaded runs, staged wheels and task logs that are older than their time."""
    from nightbench.night.staged_wheels import UNUSED, remove_unused_wheels
    from nightbench.spool import open_spool

    spool = open_spool()
    removed = spool.expire(context["params"]["spool_days"])
    for run_id in removed:
        log.info("removed run %s from the spool", run_id)
    logs = Path(conf.get("logging", "base_log_folder"))
    expired = expire_logs(logs, context["params"]["log_days"])
    with user_errors_fail_task():
        now = datetime.now(UTC)
        # What a comparison fetched of those that were sent is a staged wheel of its own.
        wheels = [*remove_unused_wheels(spool, now), *spool.uploads.expire(now - UNUSED)]
    for wheel in wheels:
        log.info("removed %s, which no run has used for long", wheel)
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
    limit = time.time() - days * DAY_S
    removed = 0
    for path in sorted(folder.rglob("*"), key=lambda p: len(p.parts), reverse=True):
        if path.is_symlink():
            continue
        if path.is_dir():
            if path.stat().st_mtime < limit and not any(path.iterdir()):
                path.rmdir()
        elif path.suffix == ".log" and path.stat().st_mtime < limit:
            path.unlink(missing_ok=True)
            removed += 1
    return removed


@task
def clusters_to_sweep(**context: Any) -> list[str]:
    """The clusters that the form names; all where it names none."""
    named = context["params"].get("clusters")
    return list(named or find_clusters(locations.dags_folder()))


@task(
    map_index_template="{{ cluster }}",
    max_active_tis_per_dagrun=1,
    execution_timeout=timedelta(hours=1),
)
def sweep(cluster: str, **context: Any) -> dict[str, Any]:
    """End orphans and remove what is old on the nodes of one cluster."""
    import asyncio

    from nightbench.config.run_request import cluster_of
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


DEADLINES_DOC = """\
### Missing nights

Every quarter of an hour each suite with a schedule is held against what came of its nights. A
night that has brought nothing by its deadline (`night.deadline` of the suite; an hour after the
night's end unless given) is reported once, to the suite's channels: no run, a run that is not
finished, one that was not judged, or a whole cluster that is silent. What comes late ends it. A
suite whose DAG is paused promises nothing. `nightbench nights` lists them all.
"""


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
        doc_md=DEADLINES_DOC,
        tags=["alerts"],
    ) as dag:
        check_deadlines()
    return dag


@task(doc_md="Holds every promised night against what came; a missing one is reported once.")
def check_deadlines(**context: Any) -> str:
    """Check all suites with a schedule; returns a line of summary."""
    from nightbench.night import missing_nights
    from nightbench.night.scheduled_suites import scheduled_suites
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
    """Return whether a DAG is paused; None if Airflow has no such DAG."""
    try:
        return bool(context["ti"].get_dag(dag_id).is_paused)
    except AirflowRuntimeError as error:
        log.info("Airflow does not know the DAG %s: %s", dag_id, error)
        return None
