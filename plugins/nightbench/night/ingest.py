"""Loads runs from the spool into the warehouse: idempotent; runs wait while PostgreSQL is away."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from nightbench.core.errors import ItemErrors
from nightbench.core.hours import in_utc
from nightbench.core.model import CaseStatus, LoadBatch
from nightbench.night.cluster_preflight import record_run
from nightbench.night.load_batch import build_load_batch
from nightbench.spool import Document, RunSpool, Spool, utc_now
from nightbench.spool.documents import DamagedDocument
from nightbench.spool.plans import EXPORTED, mark_ended
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect

ABANDONED = timedelta(days=2)
"""Age from which an unended run is abandoned: its tasks were ended from outside."""

ORPHANED = timedelta(minutes=5)
"""Time after the last progress of a dead process from which its leases have ended, too."""

log = logging.getLogger(__name__)


def ingest_run(spool: Spool, run_id: str, connect: Connect) -> str:
    """Summarise, check and load one run, and say so; doing it again changes nothing.

    Checks come before the connection: none is open while Great Expectations works, and that is not
    imported if the warehouse is away.

    Raises:
        WarehouseUnavailable: PostgreSQL is away; the run waits in the spool.
        UserError: the run's files cannot be read.
    """
    folder = spool.run(run_id)
    connect().close()
    batch = build_load_batch(folder)
    with opened(connect) as warehouse:
        changed = warehouse.runs.load(batch)
        warehouse.runs.refresh_statistics()
        record_run(warehouse, folder, batch.run.cluster)
    sentence = _sentence(batch, changed)
    folder.save_loaded({"at": utc_now(), "sentence": sentence})
    return sentence


def waiting_runs(spool: Spool) -> list[RunSpool]:
    """Return runs that have ended and are not loaded, oldest first."""
    return [run for run in spool.runs() if run.has_ended and run.loaded() is None]


def ingest_ended(spool: Spool, connect: Connect, run_id: str | None = None) -> list[str]:
    """Load a run, which ends it, and all other ended runs; return those that were loaded.

    A waiting run that cannot be loaded keeps waiting and does not block the others.

    Raises:
        UserError: the warehouse is away (everything stays in the spool), the run cannot be read,
            or no run that waits can be loaded.
    """
    loaded: list[str] = []
    if run_id is not None:
        mark_ended(spool.run(run_id))
        log.info("%s", ingest_run(spool, run_id, connect))
        loaded.append(run_id)
    errors = ItemErrors()
    for waiting in waiting_runs(spool):
        with errors.of(f"run {waiting.run_id} still waits"):
            log.info("%s", ingest_run(spool, waiting.run_id, connect))
            loaded.append(waiting.run_id)
    if errors and not loaded:
        raise list(errors.values())[-1]
    return loaded


# --- runs that were ended from outside ----------------------------------------------------


def close_ended(
    spool: Spool, state_of: Callable[[str, str], str | None], now: datetime
) -> list[str]:
    """Mark runs as ended that were ended from outside, before their ingest; return those.

    These are runs whose DAG run has ended, runs of a terminal whose process was killed, and runs
    that began long ago. `state_of` takes dag_id and DAG run id; None if Airflow has no such run.
    """
    closed, errors = [], ItemErrors()
    for run in spool.runs():
        with errors.of(f"run {run.run_id} is not ended"):
            document = run.run() or {}
            if document.get("ended_at") or run.loaded() is not None:
                continue
            if _dag_run_ended(run, document, state_of, now) or _is_abandoned(run, document, now):
                mark_ended(run)
                closed.append(run.run_id)
    return closed


def _dag_run_ended(
    run: RunSpool, document: Document, state_of: Callable[[str, str], str | None], now: datetime
) -> bool:
    """Return whether the DAG run of a run has ended, and its gangs as well.

    A gang that is being ended is about to write its outcome. If the triggerer died before, the
    leases have ended the gang by `ORPHANED`.
    """
    dag_id, dag_run_id = document.get("dag_id"), document.get("dag_run_id")
    if not (dag_id and dag_run_id):
        return False
    is_ending = any(_is_open(run, case_id) for case_id in run.case_ids())
    if is_ending and (_last_progress(run) or now) > now - ORPHANED:
        return False
    return state_of(dag_id, dag_run_id) in ("success", "failed")


def _is_open(run: RunSpool, case_id: str) -> bool:
    """Return whether a case was begun and has no outcome; a damaged outcome is one."""
    store = run.latest(case_id)
    try:
        return store is not None and store.outcome() is None
    except DamagedDocument:
        return False


def _is_abandoned(run: RunSpool, document: Document, now: datetime) -> bool:
    started = document.get("started_at")
    if not started or document.get(EXPORTED):
        return False
    killed = run.is_controlled() is False
    progress = _last_progress(run) if killed else None
    return (progress or in_utc(datetime.fromisoformat(started))) < now - (
        ORPHANED if killed else ABANDONED
    )


def _last_progress(run: RunSpool) -> datetime | None:
    found = [
        in_utc(datetime.fromisoformat(progress["at"]))
        for case_id in run.case_ids()
        if (store := run.latest(case_id)) and (progress := store.progress())
    ]
    return max(found, default=None)


def _sentence(batch: LoadBatch, changed: bool) -> str:
    ok = [case for case in batch.cases if case.status is CaseStatus.OK]
    left_out = sum(case.status is CaseStatus.LEFT_OUT for case in batch.cases)
    quarantined = sum(case.measurement is not None and case.measurement.quarantined for case in ok)
    what = "loaded" if changed else "was loaded before; nothing changed"
    said = (
        f"run {batch.run.run_id} {what}: {len(ok) - quarantined} measured, "
        f"{quarantined} quarantined, {len(batch.cases) - len(ok) - left_out} failed or not "
        f"measured, {len(batch.planned) - len(batch.cases)} missing"
    )
    return f"{said}, {left_out} left out" if left_out else said
