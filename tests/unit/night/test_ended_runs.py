"""Runs whose DAG run was ended by a person before its ingest: they are loaded by the next one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nightbench.night.ingest import ORPHANED, close_ended
from nightbench.spool import RunSpool, Spool

NOW = datetime.now(UTC)
CASE = "sleep-fake-single-1x1-bs2-smoke"
CANCELLED = {
    "status": "cancelled",
    "reasons": [],
    "faults": [],
    "repeats": [],
    "ended_at": "2026-01-01",
}


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def planned(spool: Spool, name: str, dag_run_id: str | None) -> RunSpool:
    run = spool.run(f"{name}-20260101T000000-0000")
    run.save_run({"run_id": run.run_id, "dag_id": "on_demand", "dag_run_id": dag_run_id})
    run.save_planned([{"case_id": CASE}])
    return run


def ended(run: RunSpool) -> bool:
    return "ended_at" in (run.run() or {})


def test_a_run_is_closed_once_airflow_says_that_its_dag_run_has_ended(spool: Spool) -> None:
    states = {"failed": "failed", "going": "running", "forgotten": None}
    found = {name: planned(spool, name, name) for name in states}
    direct = planned(spool, "direct", None)

    closed = close_ended(spool, lambda dag_id, dag_run_id: states[dag_run_id], NOW)

    assert closed == [found["failed"].run_id]
    assert ended(found["failed"])
    assert not any(map(ended, (found["going"], found["forgotten"], direct)))


def test_a_gang_that_is_still_being_ended_is_waited_for(spool: Spool) -> None:
    run = planned(spool, "failed", "failed")
    store = run.case(CASE)
    store.save_progress({"state": "running"})
    assert close_ended(spool, lambda dag_id, dag_run_id: "failed", NOW) == []

    store.save_outcome(CANCELLED)
    assert close_ended(spool, lambda dag_id, dag_run_id: "failed", NOW) == [run.run_id]


def test_a_gang_whose_controller_died_is_not_waited_for_once_its_leases_have_ended(
    spool: Spool,
) -> None:
    run = planned(spool, "failed", "failed")
    run.case(CASE).save_progress({"state": "running"})
    later = datetime.now(UTC) + ORPHANED + timedelta(minutes=1)

    assert close_ended(spool, lambda dag_id, dag_run_id: "failed", later) == [run.run_id]
