"""What the tasks of a run do on a worker after measuring: load it, judge it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from nightbench.core.errors import UserError
from nightbench.orchestration import places
from nightbench.orchestration.channels import channel_url
from nightbench.orchestration.connections import WAREHOUSE, warehouse_dsn
from nightbench.spool import SpoolError

if TYPE_CHECKING:
    from nightbench.spool import RunSpool
    from nightbench.warehouse.connection import Connection

ABANDONED = timedelta(days=2)
"""A run that nobody has ended for so long will not be ended: its tasks were ended from outside."""

ORPHANED = timedelta(minutes=5)
"""After so long without a word from a run whose process is dead, its leases have ended, too."""

log = logging.getLogger(__name__)


def connect(conn_id: str = WAREHOUSE) -> Connection:
    """A connection to the warehouse through an Airflow Connection.

    Raises:
        WarehouseUnavailable: it is away.
        UserError: nobody knows the Connection.
    """
    from nightbench.warehouse import connect as open_connection

    return open_connection(warehouse_dsn(conn_id))


# --- after measuring ----------------------------------------------------------------------


def ingest(run_id: str | None) -> list[str]:
    """Load a run, and every other that has ended and waits; returns those that were loaded.

    A waiting run that cannot be loaded keeps waiting and does not keep the others from it.

    Raises:
        UserError: the warehouse is away (everything stays in the spool), the run cannot be read,
            or no run that waits can be loaded.
    """
    from nightbench.night.ingest import ingest_run, waiting_runs
    from nightbench.spool.plans import mark_ended

    spool = places.spool()
    loaded: list[str] = []
    if run_id is not None:
        mark_ended(spool.run(run_id))
        log.info("%s", ingest_run(spool, run_id, connect).sentence())
        loaded.append(run_id)
    failure: UserError | None = None
    for waiting in waiting_runs(spool):
        try:
            log.info("%s", ingest_run(spool, waiting.run_id, connect).sentence())
        except UserError as error:
            log.error("run %s still waits: %s", waiting.run_id, error)
            failure = error
        else:
            loaded.append(waiting.run_id)
    if failure is not None and not loaded:
        raise failure
    return loaded


def close_ended(state_of: Callable[[str, str], str | None]) -> list[str]:
    """Mark runs as ended whose DAG run a person ended before its ingest; they can be loaded then.

    A run whose gang is still being ended keeps waiting: its outcome is about to be written.

    Args:
        state_of: DAG and DAG run -> the DAG run's state; None where Airflow has no such run.
    """
    from nightbench.spool.plans import mark_ended

    closed = []
    for run in places.spool().runs():
        document = run.run() or {}
        dag_id, dag_run_id = document.get("dag_id"), document.get("dag_run_id")
        if document.get("ended_at") or run.loaded() is not None or not (dag_id and dag_run_id):
            continue
        begun = [store for case_id in run.case_ids() if (store := run.latest(case_id))]
        try:
            if any(store.outcome() is None for store in begun):
                continue
        except SpoolError as error:
            # Another run's damaged file must not keep this night's from its ingest.
            log.error("run %s still waits: %s", run.run_id, error)
            continue
        if state_of(dag_id, dag_run_id) in ("success", "failed"):
            mark_ended(run)
            closed.append(run.run_id)
    return closed


def close_abandoned(now: datetime) -> list[str]:
    """Mark runs as ended that nobody will end any more; they can be loaded then.

    Those are runs of a terminal whose process was killed, and runs whose DAG run was ended from
    outside long ago.
    """
    from nightbench.spool.plans import mark_ended

    closed = []
    for run in places.spool().runs():
        document = run.run() or {}
        started = document.get("started_at")
        if not started or document.get("ended_at") or run.loaded() is not None:
            continue
        killed = run.is_steered() is False
        told = _last_word(run) if killed else None
        if (told or _moment(started)) < now - (ORPHANED if killed else ABANDONED):
            mark_ended(run)
            closed.append(run.run_id)
    return closed


def _last_word(run: RunSpool) -> datetime | None:
    """When the progress of a case was written last."""
    told = [
        _moment(progress["at"])
        for case_id in run.case_ids()
        if (store := run.latest(case_id)) and (progress := store.progress())
    ]
    return max(told, default=None)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def judge(run_id: str) -> str:
    """Judge a loaded run, tell who must know, write its digest; returns one line of summary.

    Raises:
        UserError: the warehouse is away, the run was never loaded, or no channel took the message.
    """
    from airflow.sdk.configuration import conf

    from nightbench.night.judge import judge_run
    from nightbench.night.preflight import notes as node_notes
    from nightbench.report import digest_text, from_warehouse, write_digest
    from nightbench.report.digest import headline
    from nightbench.spool.plans import read_plan
    from nightbench.warehouse import Reader

    spool = places.spool()
    base_url = conf.get("api", "base_url").rstrip("/")
    link = f"{base_url}/nightbench/?run={run_id}"
    result = judge_run(
        spool, run_id, connect, resolve=channel_url, base_url=base_url, confirms=True
    )
    for delivery in result.deliveries:
        if not delivery.sent:
            log.warning("%s took no message: %s", delivery.channel, delivery.error)
    connection = connect()
    try:
        rows = from_warehouse(Reader(connection).results_rows(run_id))
    finally:
        connection.close()
    run = read_plan(spool.run(run_id)).run
    nodes = node_notes(spool.run(run_id))
    notes = [f"Results page: {link}"]
    if result.graded is not None:
        notes.append(result.graded.sentence())
    text = digest_text(run, rows, notes, nodes)
    path = write_digest(places.home_folder() / "reports", run, text)
    said = f"{headline(rows)}; {len(result.opened)} alerts opened, {len(result.resolved)} resolved"
    log.info("run %s: %s; digest %s", run_id, said, path)
    return said


def tell_leftovers() -> int:
    """Tell what no night has told; returns how many channels took a message.

    Raises:
        UserError: the warehouse is away, or what of some suites could not be told, and why.
    """
    from airflow.sdk.configuration import conf

    from nightbench.alerts.notify import tell_leftovers as tell_all

    base_url = conf.get("api", "base_url").rstrip("/")
    deliveries, problems = tell_all(places.spool(), connect, resolve=channel_url, base_url=base_url)
    for delivery in deliveries:
        if not delivery.sent:
            log.warning("%s took no message: %s", delivery.channel, delivery.error)
    if problems:
        raise UserError("\n".join(problems))
    return sum(delivery.sent for delivery in deliveries)


def tell(run_id: str) -> None:
    """Tell what a run has left untold and what waits for nothing any more.

    Raises:
        UserError: the warehouse is away, or no channel took the message.
    """
    from airflow.sdk.configuration import conf

    from nightbench.alerts.notify import tell_run

    base_url = conf.get("api", "base_url").rstrip("/")
    for delivery in tell_run(
        places.spool(), run_id, connect, resolve=channel_url, base_url=base_url
    ):
        if not delivery.sent:
            log.warning("%s took no message: %s", delivery.channel, delivery.error)
