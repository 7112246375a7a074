"""A suite over CeleryExecutor and object storage while workers, triggerers and the broker die.

pytest tests/drills/test_celery.py -s
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.drills.airflow_chaos import accounting, loaded_repeats, states
from tests.drills.fleet import TRIGGERERS, WORKERS, Fleet, fleet, missing
from tests.marks import marks

from nightbench.spool import RunSpool

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

CASES, REPEATS = 2, 2
SUITES = {
    "quick": {"devices": "[1x1, 2x1]", "repeats": REPEATS},
    "long": {
        "devices": "[1x1, 2x1]",
        "repeats": REPEATS,
        "steps": 60,
        "env": '{FAKE_STEP_S: "0.25"}',
    },
}
ENDS_S = 600.0


@pytest.fixture(scope="module")
def live() -> Iterator[Fleet]:
    began = time.monotonic()
    with fleet(SUITES) as running:
        print(f"  the fleet is up after {time.monotonic() - began:.0f} s", flush=True)
        yield running


def caught(live: Fleet, dag_run: str, task_id: str, state: str = "running") -> dict[str, Any]:
    """The task as soon as it is in a state."""

    def find() -> dict[str, Any] | None:
        return next((t for t in live.tasks(dag_run, task_id) if t["state"] == state), None)

    deadline = time.monotonic() + 240
    while (found := find()) is None:
        assert time.monotonic() < deadline, live.where_it_stands()
        assert live.state(dag_run) in ("queued", "running"), states(live, dag_run)
        time.sleep(0.1)
    return found


def check(live: Fleet, dag_run: str) -> RunSpool:
    """The run ended well: every repeat launched once, recorded once, loaded once."""
    assert live.ended(dag_run, wait_s=ENDS_S) == "success", states(live, dag_run)
    run = live.run_of(dag_run)
    assert marks(run.run_id) == {}
    assert accounting(live, run) == []
    launches = live.launches(run.run_id)
    assert set(launches.values()) == {1}
    # One process on one node, and two on two, in each repeat.
    assert len(launches) == 3 * REPEATS, launches
    assert len(loaded_repeats(live, run.run_id)) == CASES * REPEATS
    assert [(row["status"], row["n"]) for row in live.rows(run.run_id)] == [("ok", REPEATS)] * CASES
    return run


def test_a_suite_reaches_medians_and_its_progress_is_readable_afterwards(live: Fleet) -> None:
    began = time.monotonic()
    dag_run = live.trigger("long")
    run = check(live, dag_run)
    print(f"  undisturbed: {time.monotonic() - began:.0f} s")
    every = live.api.task_instances("on_demand", dag_run)
    print(f"  tasks ran on {sorted({t['hostname'] for t in every if t['hostname']})}")
    for task in live.tasks(dag_run, "measure"):
        log = live.log_of(dag_run, "measure", task["map_index"], task["try_number"])
        assert "window step" in log, log  # the trigger's, which ran on another machine
        assert f"repeat {REPEATS} of {REPEATS}" in log, log
        assert "PRIVATE KEY" not in log
    # No document names a place of the machine that wrote it.
    own = [str(live.place / name) for name in live.environments]
    own += ['known_hosts": "/', "id_ed25519", "PRIVATE KEY"]
    fs = run.folder.fs
    documents = [path for path in fs.find(run.folder.path) if path.endswith(".json")]
    assert documents
    named = {path: fs.cat_file(path).decode() for path in documents}
    assert {path for path, text in named.items() if any(word in text for word in own)} == set()
    live.until(lambda: live.spool.root.joinpath("reports", f"{run.run_id}.md").exists(), "reports")


@pytest.mark.parametrize("task_id", ["plan", "preflight", "measure", "ingest"])
def test_a_worker_is_killed_in_a_task(live: Fleet, task_id: str) -> None:
    dag_run = live.trigger("quick")
    task = caught(live, dag_run, task_id)
    victim = task["hostname"]
    assert victim in WORKERS
    killed = live.kill(victim)
    try:
        run = check(live, dag_run)
    finally:
        live.start(victim)
    print(f"  in {task_id}: success {time.monotonic() - killed:.0f} s after the kill, on the other")
    again = next(t for t in live.tasks(dag_run, task_id) if t["map_index"] == task["map_index"])
    assert again["try_number"] == task["try_number"] + 1, "the kill came too late"
    assert again["hostname"] != victim
    assert run.loaded() is not None


def case_in_window(run: RunSpool) -> Iterator[bool]:
    """Of each case whether its processes step."""
    for entry in run.planned():
        yield bool((run.case(entry["case_id"]).progress() or {}).get("phase"))


def controlling_process(live: Fleet, dag_run: str) -> str | None:
    """The host name of the triggerer that has a gang of a run."""
    for task in live.tasks(dag_run, "measure"):
        job = task["triggerer_job"]
        if task["state"] == "deferred" and job:
            return str(job["hostname"])
    return None


def test_the_triggerer_of_a_gang_is_killed_and_the_other_one_goes_on(live: Fleet) -> None:
    dag_run = live.trigger("long")
    run = live.run_of(dag_run)
    live.until(lambda: any(case_in_window(run)), "the first gang to step")
    victim = live.until(lambda: controlling_process(live, dag_run), "the triggerer of the gang")
    assert victim in TRIGGERERS
    killed = live.kill(victim)
    try:
        check(live, dag_run)
    finally:
        live.start(victim)
    print(f"  the triggerer: success {time.monotonic() - killed:.0f} s after the kill")


@pytest.mark.parametrize("away_s", [0.0, 20.0])
def test_the_broker_is_killed_and_comes_back(live: Fleet, away_s: float) -> None:
    dag_run = live.trigger("long")
    run = live.run_of(dag_run)
    killed = live.kill("broker")
    time.sleep(away_s)
    live.start("broker")
    check(live, dag_run)
    print(
        f"  the broker, away for {away_s:.0f} s: success {time.monotonic() - killed:.0f} s later, "
        f"run {run.run_id}"
    )
