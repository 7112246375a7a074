"""Loading what lies in the spool: idempotent, and patient where PostgreSQL is away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nightbench.core.model import CaseStatus, RunBundle
from nightbench.night.bundles import build_bundle
from nightbench.night.node_records import book_run
from nightbench.spool import RunSpool, Spool, utc_now
from nightbench.warehouse import Loader
from nightbench.warehouse.connection import Connect


@dataclass(frozen=True)
class IngestResult:
    """What one load of a run did."""

    run_id: str
    changed: bool
    """False where the warehouse had all of it already."""
    measured: int
    quarantined: int
    failed: int
    """Cases that failed, were cancelled, or whose framework is unavailable."""
    missing: int
    """Planned cases of which nothing came back."""
    left_out: int = 0
    """Cases that the night had no room for."""

    def sentence(self) -> str:
        """The result for people."""
        what = "loaded" if self.changed else "was loaded before, nothing changed"
        said = (
            f"run {self.run_id} {what}: {self.measured} measured, {self.quarantined} quarantined, "
            f"{self.failed} failed or not measured, {self.missing} missing"
        )
        return f"{said}, {self.left_out} left out" if self.left_out else said


def ingest_run(spool: Spool, run_id: str, connect: Connect) -> IngestResult:
    """Summarise, check and load one run; doing it again changes nothing.

    Checks come first: no connection is held open while Great Expectations works.

    Raises:
        WarehouseUnavailable: PostgreSQL is away; the run waits in the spool.
        UserError: the run's files cannot be read.
    """
    folder = spool.run(run_id)
    bundle = build_bundle(folder)
    connection = connect()
    try:
        changed = Loader(connection).load_run(bundle)
        book_run(connection, folder, bundle.run.cluster)
    finally:
        connection.close()
    result = _result(bundle, changed)
    folder.save_loaded({"at": utc_now(), "sentence": result.sentence()})
    return result


def waiting_runs(spool: Spool) -> list[RunSpool]:
    """Runs that have ended and that the warehouse does not have, oldest first."""
    return [
        run for run in spool.runs() if (run.run() or {}).get("ended_at") and run.loaded() is None
    ]


def ingest_waiting(spool: Spool, connect: Connect) -> Iterator[IngestResult]:
    """Load all runs that wait."""
    for folder in waiting_runs(spool):
        yield ingest_run(spool, folder.run_id, connect)


def _result(bundle: RunBundle, changed: bool) -> IngestResult:
    ok = [case for case in bundle.cases if case.status is CaseStatus.OK]
    left_out = sum(case.status is CaseStatus.LEFT_OUT for case in bundle.cases)
    quarantined = sum(case.measurement is not None and case.measurement.quarantined for case in ok)
    return IngestResult(
        run_id=bundle.run.run_id,
        changed=changed,
        measured=len(ok) - quarantined,
        quarantined=quarantined,
        failed=len(bundle.cases) - len(ok) - left_out,
        missing=len(bundle.planned) - len(bundle.cases),
        left_out=left_out,
    )
