"""Loads runs from the spool into the warehouse: idempotent; runs wait while PostgreSQL is away."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nightbench.core.errors import ItemErrors
from nightbench.core.model import CaseStatus, LoadBatch
from nightbench.night.cluster_preflight import record_run
from nightbench.night.load_batch import build_load_batch
from nightbench.spool import RunSpool, Spool, utc_now
from nightbench.spool.documents import DamagedDocument
from nightbench.spool.plans import EXPORTED, mark_ended
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connect

ABANDONED = timedelta(days=2)
"""Age from which an unended run is abandoned: its tasks were ended from outside."""

ORPHANED = timedelta(minutes=5)
"""Time after the last progress of a dead process from which its leases have ended, too."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IngestResult:
    """Result of loading a run."""

    run_id: str
    changed: bool
    """False if the warehouse already had all of it."""
    measured: int
    quarantined: int
    failed: int
    """Cases that failed, were cancelled, or whose framework is unavailable."""
    missing: int
    """Planned cases without a result."""
    left_out: int = 0
    """Cases that did not fit into the night."""

    def sentence(self) -> str:
        """The result for people."""
        what = "loaded" if self.changed else "was loaded before; nothing changed"
        said = (
            f"run {self.run_id} {what}: {self.measured} measured, {self.quarantined} quarantined, "
            f"{self.failed} failed or not measured, {self.missing} missing"
        )
        return f"{said}, {self.left_out} left out" if self.left_out else said


def ingest_run(spool: Spool, run_id: str, connect: Connect) -> IngestResult:
    """Summarise, check and load one run; doing it again changes nothing.

    Checks come before the connection: none is open while Great Expectations works, and that is not
    imported if the warehouse is away.

    Raises:
        WarehouseUnavailable: PostgreSQL is away; the run waits in the spool.
        UserError: the run's files cannot be read.
    """
    folder = spool.run(run_id)
    connect().close()
    batch = build_load_batch(folder)
    connection = connect()
    try:
        runs = Warehouse(connection).runs
        changed = runs.load(batch)
        runs.refresh_statistics()
        record_run(connection, folder, batch.run.cluster)
    finally:
        connection.close()
    result = _result(batch, changed)
    folder.save_loaded({"at": utc_now(), "sentence": result.sentence()})
    return result


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
        log.info("%s", ingest_run(spool, run_id, connect).sentence())
        loaded.append(run_id)
    errors = ItemErrors()
    for waiting in waiting_runs(spool):
        with errors.of(f"run {waiting.run_id} still waits"):
            log.info("%s", ingest_run(spool, waiting.run_id, connect).sentence())
            loaded.append(waiting.run_id)
    if errors and not loaded:
        raise list(errors.values())[-1]
    return loaded


# --- runs that were ended from outside ----------------------------------------------------


def close_ended(
    spool: Spool, state_of: Callable[[str, str], str | None], now: datetime
) -> list[str]:
    """Mark runs as ended whose DAG run was ended before its ingest; return those.

    A run whose gang is still being ended keeps waiting: its outcome is about to be written. If
    the triggerer died before it wrote one, the leases have ended the gang by `ORPHANED`.

    `state_of` takes dag_id and DAG run id; None if Airflow has no such run.
    """
    closed, errors = [], ItemErrors()
    for run in spool.runs():
        with errors.of(f"run {run.run_id} is not ended"):
            document = run.run() or {}
            dag_id, dag_run_id = document.get("dag_id"), document.get("dag_run_id")
            if document.get("ended_at") or run.loaded() is not None or not (dag_id and dag_run_id):
                continue
            is_ending = any(_is_open(run, case_id) for case_id in run.case_ids())
            if is_ending and (_last_progress(run) or now) > now - ORPHANED:
                continue
            if state_of(dag_id, dag_run_id) in ("success", "failed"):
                mark_ended(run)
                closed.append(run.run_id)
    return closed


def _is_open(run: RunSpool, case_id: str) -> bool:
    """Return whether a case was begun and has no outcome; a damaged outcome is one."""
    store = run.latest(case_id)
    try:
        return store is not None and store.outcome() is None
    except DamagedDocument:
        return False


def close_abandoned(spool: Spool, now: datetime) -> list[str]:
    """Mark abandoned runs as ended; return those.

    Those are runs of a terminal whose process was killed, and runs whose DAG run was ended from
    outside long ago.
    """
    closed, errors = [], ItemErrors()
    for run in spool.runs():
        with errors.of(f"run {run.run_id} is not ended"):
            document = run.run() or {}
            started = document.get("started_at")
            over = document.get("ended_at") or run.loaded() is not None
            if not started or over or document.get(EXPORTED):
                continue
            killed = run.is_controlled() is False
            progress = _last_progress(run) if killed else None
            if (progress or _moment(started)) < now - (ORPHANED if killed else ABANDONED):
                mark_ended(run)
                closed.append(run.run_id)
    return closed


def _last_progress(run: RunSpool) -> datetime | None:
    """Return when the progress of a case was last written."""
    found = [
        _moment(progress["at"])
        for case_id in run.case_ids()
        if (store := run.latest(case_id)) and (progress := store.progress())
    ]
    return max(found, default=None)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _result(batch: LoadBatch, changed: bool) -> IngestResult:
    ok = [case for case in batch.cases if case.status is CaseStatus.OK]
    left_out = sum(case.status is CaseStatus.LEFT_OUT for case in batch.cases)
    quarantined = sum(case.measurement is not None and case.measurement.quarantined for case in ok)
    return IngestResult(
        run_id=batch.run.run_id,
        changed=changed,
        measured=len(ok) - quarantined,
        quarantined=quarantined,
        failed=len(batch.cases) - len(ok) - left_out,
        missing=len(batch.planned) - len(batch.cases),
        left_out=left_out,
    )
