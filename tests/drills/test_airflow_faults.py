"""What ends a task or a run from outside, with and without a living triggerer; a dead database."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from tests.drills.airflow_chaos import (
    accounting,
    bring_back,
    kill,
    loaded_repeats,
    states,
)
from tests.integration.live_airflow import Live, live_airflow, patiently
from tests.marks import marks

from nightbench.core.model import CaseStatus
from nightbench.local import lifecycle, processes
from nightbench.spool import RunSpool, Spool

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

SEED = int(os.environ.get("NIGHTBENCH_DRILL_SEED") or time.time_ns() % 1_000_000)
CASE = "sleep-fake-collective-2x1-bs2-smoke"
COMMAND = [sys.executable, "-c", "from nightbench.cli.entry import main; main()"]
LEASE_S = 120.0
GRACE_S = 60.0
SUITES: dict[str, dict[str, Any]] = {
    "long": {"devices": "2x1", "steps": 60, "repeats": 9, "env": '{FAKE_STEP_S: "0.5"}'},
    "quick": {"devices": "[1x1, 2x1]"},
}


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with live_airflow(SUITES) as running:
        yield running


@pytest.fixture
def running(live: Live) -> tuple[str, RunSpool]:
    """A run whose gang steps on both nodes."""
    dag_run = live.trigger("long")
    run = live.run_of(dag_run)
    live.until(lambda: (run.case(CASE).progress() or {}).get("phase"), "the gang to step")
    assert len(marks(run.run_id)) == 6, "two agents with their parents, two ranks"
    return dag_run, run


def family(live: Live, service: str) -> list[int]:
    found = live.stack.running(service)
    assert found is not None
    return [found.pid, *processes.descendants(found.pid)]


def test_a_deleted_run_leaves_nothing_on_the_nodes(
    live: Live, running: tuple[str, RunSpool]
) -> None:
    dag_run, run = running

    # Airflow deletes no run that is running: whoever wants that ends it first, and does not wait.
    live.api.fail_run("on_demand", dag_run)
    live.api._send("DELETE", f"/api/v2/dags/on_demand/dagRuns/{dag_run}")

    live.until(lambda: not marks(run.run_id), "the nodes to be clean", wait_s=LEASE_S + GRACE_S)
    assert accounting(live, run) in ([], [f"{CASE} g0: no outcome"])


def test_marked_failed_while_no_triggerer_lives_the_lease_ends_the_gang(
    live: Live, running: tuple[str, RunSpool]
) -> None:
    dag_run, run = running
    lifecycle.stop_watchdogs(live.stack.home)  # or there would be a triggerer again
    kill(family(live, "triggerer"))
    began_s = time.monotonic()

    live.api.fail_run("on_demand", dag_run)

    live.until(lambda: not marks(run.run_id), "the leases to end", wait_s=LEASE_S + GRACE_S)
    print(f"  clean {time.monotonic() - began_s:.0f} s after the triggerer's death")
    bring_back(live)
    # Nobody takes it up again, now that there is a triggerer.
    time.sleep(20)
    assert marks(run.run_id) == {}
    assert live.state(dag_run) == "failed"


def test_timed_out_by_airflow_the_gang_is_ended(live: Live, running: tuple[str, RunSpool]) -> None:
    dag_run, run = running

    # The task's own limit is hours: let it be over now, as Airflow notes it.
    secrets = live.stack.secrets
    with (
        contextlib.closing(
            psycopg2.connect(
                host="127.0.0.1",
                port=live.stack.ports.postgres,
                dbname="airflow",
                user="airflow",
                password=secrets.airflow,
            )
        ) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "update task_instance set trigger_timeout = now()"
            " where run_id = %s and state = 'deferred'",
            (dag_run,),
        )
        assert cursor.rowcount == 1

    live.until(
        lambda: any(t["state"] != "deferred" for t in live.tasks(dag_run, "measure")),
        "Airflow to see the time-out",
    )
    # An automatic retry may have taken it up: whatever controls it, nothing is launched twice.
    live.api.fail_run("on_demand", dag_run)
    live.until(lambda: not marks(run.run_id), "the nodes to be clean", wait_s=LEASE_S + GRACE_S)
    assert set(live.launches(run.run_id).values()) == {1}


def test_cleared_while_it_runs_it_is_measured_anew_and_the_old_gang_ends(
    live: Live, running: tuple[str, RunSpool]
) -> None:
    dag_run, run = running

    live.api._send(
        "POST",
        "/api/v2/dags/on_demand/clearTaskInstances",
        json={
            "dry_run": False,
            "dag_run_id": dag_run,
            "task_ids": [["measure", 0]],
            "only_failed": False,
            "only_running": False,
            "include_downstream": True,
            "reset_dag_runs": True,
        },
    )

    live.until(lambda: run.generations(CASE) == [0, 1], "a new generation")

    def of_generation(number: int) -> list[int]:
        end = f"/{CASE}/g{number}"
        return [pid for pid, mark in marks(run.run_id).items() if mark.endswith(end)]

    live.until(lambda: not of_generation(0), "the old gang to end", wait_s=LEASE_S + GRACE_S)
    live.until(lambda: of_generation(1), "the new gang")
    live.api.fail_run("on_demand", dag_run)
    live.until(lambda: not marks(run.run_id), "the nodes to be clean", wait_s=LEASE_S + GRACE_S)
    outcome = live.until(run.case(CASE, 1).outcome, "the outcome")
    assert outcome["status"] == CaseStatus.CANCELLED
    assert set(live.launches(run.run_id).values()) == {1}


def test_the_database_dies_while_results_are_loaded(live: Live) -> None:
    rng = random.Random(SEED)
    print(f"\nNIGHTBENCH_DRILL_SEED={SEED}")
    dag_run = live.trigger("quick")
    run = live.run_of(dag_run)
    live.until(
        lambda: [t["state"] for t in live.tasks(dag_run, "ingest")] == ["running"], "the ingest"
    )
    time.sleep(rng.uniform(0.0, 6.0))

    kill(family(live, "postgres"))
    time.sleep(rng.uniform(1.0, 20.0))
    bring_back(live)

    ended = live.until(
        lambda: (s := patiently(lambda: live.state(dag_run))) in ("success", "failed") and s,
        f"{dag_run} to end: {states(live, dag_run)}",
        wait_s=600,
    )
    if ended == "failed":  # the ingest was lost with the database: the next run loads it
        follower = live.trigger("quick", repeats=1)
        assert live.ended(follower) == "success", states(live, follower)
    assert run.loaded() is not None
    assert len(loaded_repeats(live, run.run_id)) == 4
    assert accounting(live, run) == []
    assert [row["n"] for row in live.judged(run.run_id)] == [2, 2]


def test_two_people_and_a_scheduler_want_the_same_nodes(live: Live, tmp_path: Path) -> None:
    homes = [tmp_path / "a", tmp_path / "b"]
    entry = json.loads(live.stack.home.connections_file.read_text())["nightbench_local"]
    for home in homes:
        (home / "cluster").mkdir(parents=True)
        shutil.copy(live.stack.home.cluster / "known_hosts", home / "cluster")
        (home / "connections.json").write_text(json.dumps({"nightbench_local": entry}))
    dag_run = live.trigger("quick", repeats=4)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")}
    people = [
        subprocess.Popen(
            [*COMMAND, "run", "quick", "--direct", "--repeats", "4"],
            env={**kept, "NIGHTBENCH_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for home in homes
    ]

    said = [person.communicate(timeout=600)[0] for person in people]

    assert [person.returncode for person in people] == [0, 0], said
    assert live.ended(dag_run) == "success", states(live, dag_run)
    runs = [live.run_of(dag_run), *(Spool(home / "spool").runs()[0] for home in homes)]
    for run in runs:
        for planned in run.planned():
            outcome = run.case(planned["case_id"]).outcome()
            assert outcome is not None
            assert [r["status"] for r in outcome["repeats"]] == ["ok"] * 4
        assert set(live.launches(run.run_id).values()) == {1}
        assert marks(run.run_id) == {}
    # Whoever had to wait was told for whom, and since when.
    assert any("waiting for node" in text and "has locked it since" in text for text in said), said
