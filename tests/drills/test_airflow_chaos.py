"""Random kills of any process of the system while a suite runs; then the books are checked.

Nobody brings anything back but the system itself: its watchdogs, who are victims too.

NIGHTBENCH_DRILL_SEED=7 NIGHTBENCH_DRILL_KILLS=12 pytest tests/drills/test_airflow_chaos.py -s
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.drills.airflow_chaos import (
    Chaos,
    accounting,
    explain,
    finished,
    loaded_repeats,
    states,
)
from tests.integration.live_airflow import Live, live_airflow, patiently
from tests.marks import marks

pytestmark = [pytest.mark.live, pytest.mark.timeout(2400)]

SEED = int(os.environ.get("NIGHTBENCH_DRILL_SEED") or time.time_ns() % 1_000_000)
KILLS = int(os.environ.get("NIGHTBENCH_DRILL_KILLS") or 6)
LEASE_S = 120.0

SUITES: dict[str, dict[str, Any]] = {
    "chaos": {"devices": "[1x1, 2x1]", "steps": 40, "repeats": 4, "env": '{FAKE_STEP_S: "0.25"}'},
    "calm": {"devices": "2x1"},
}


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with live_airflow(SUITES) as running:
        yield running


def test_whatever_is_killed_every_repeat_is_accounted_for_once(live: Live) -> None:
    rng = random.Random(SEED)
    print(f"\nNIGHTBENCH_DRILL_SEED={SEED} NIGHTBENCH_DRILL_KILLS={KILLS}", flush=True)
    dag_run = live.trigger("chaos")
    run = live.run_of(dag_run)
    live.until(lambda: marks(run.run_id), "the first agent")
    chaos = Chaos(live, rng, run.run_id)
    kept: dict[str, bytes] = {}

    for _ in range(KILLS):
        time.sleep(rng.uniform(1.0, 12.0))
        kept = {**finished(run), **kept}
        chaos.strike()
        if patiently(lambda: live.state(dag_run)) in ("success", "failed"):
            break
    live.until(
        lambda: patiently(lambda: live.state(dag_run)) in ("success", "failed"),
        f"{dag_run} to end: {states(live, dag_run)}",
        wait_s=900,
    )
    print(f"  the run ended {live.state(dag_run)}: {states(live, dag_run)}", flush=True)
    explain(live, dag_run)

    # Whoever has lost its controller ends itself with its lease.
    live.until(lambda: not marks(run.run_id), "the nodes to be clean", wait_s=LEASE_S + 60)
    now = finished(run)
    assert {path: now.get(path) for path in kept} == kept, "a finished repeat was changed or lost"

    # The next run goes without help, and loads what the one before could not.
    follower = live.trigger("calm")
    assert live.ended(follower) == "success", states(live, follower)
    assert accounting(live, run) == [], chaos.told
    assert run.loaded() is not None, chaos.told
    recorded = {
        (path.parents[2].name, int(path.parent.name.removeprefix("repeat-")))
        for path in Path(run.folder.path).glob("cases/*/g*/repeat-*/controller.json")
    }
    assert set(loaded_repeats(live, run.run_id)) == recorded, chaos.told
    rows = live.judged(run.run_id)
    assert {row["case_id"] for row in rows} == {entry["case_id"] for entry in run.planned()}
    calm = live.run_of(follower)
    assert set(live.launches(calm.run_id).values()) == {1}
    assert [(row["status"], row["n"]) for row in live.rows(calm.run_id)] == [("ok", 2)]
