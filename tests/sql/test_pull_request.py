"""Pull requests played whole: GitHub's API, CI's jobs, the queue on PostgreSQL, nodes over SSH.

Three people's jobs ask at once while a night goes on: a push that is replaced by a newer one, a
slower wheel with its profile, a fork's wheel that cannot be imported, and one that hangs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.integration.forges import AIRFLOW_TOKEN, Play, played
from tests.integration.terminal import Terminal, marked, terminal
from tests.integration.test_compare_action import ACTION, ONE, PULL, SCRIPT, TWO, Job
from tests.integration.toy_line import make_benchmarks, make_wheel
from tests.sql.conftest import Database
from tests.sql.page_client import page_client

from nightbench.config import load_catalog
from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.experiments import engine
from nightbench.gang import SshTarget
from nightbench.orchestration import experiments_dag, page_app
from nightbench.warehouse import Warehouse, connect
from nightbench.web import PageUser

pytestmark = pytest.mark.large

SUITE = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 1, measured_steps: 12, repeats: 2}
timeouts: {repeat: 30s, progress: 15s}
matrix:
  - workload: sleep
    frameworks: toy
    strategy: single
    devices: 1x1
    batch_size_per_device: 2
"""
STEP_S = 0.1
SLOWER = float(os.environ.get("NIGHTBENCH_TEST_SLOWER", "0.5"))
"""How much longer a step of the slow wheel takes: 0.04 on a machine that is calm."""
BODIES = {
    "slow": "",
    "equal": "",
    "broken": "raise ImportError('libgone.so: cannot open shared object file')\n",
    "hangs": "import time\ntime.sleep(3600)\n",
}
WHO = {"ada": "ada-token-0123456789", "bob": "bob-token-0123456789", "eve": "eve-token-0123456789"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A home, a suite of the toy framework, and two nodes; this process is at home there."""
    locked = make_wheel(tmp_path / "wheels", "1.0", STEP_S)
    more = {"NIGHTBENCH_BENCHMARKS": str(make_benchmarks(tmp_path / "benchmarks", locked))}
    with terminal(tmp_path, SUITE, tmp_path / "wheels", **more) as made:
        for name, value in made.environment().items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def measure(
    here: Terminal, warehouse: Database, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[dict[str, Any]]]:
    """Measure what is queued, as a DAG run of `nightbench_experiments` does."""

    def context(suite: str, cluster: str, *, until: datetime | None) -> engine.ExperimentContext:
        found = resolve_request(RunRequest(suite, cluster=cluster), load_catalog())
        known = json.loads((here.home / "connections.json").read_text())["nightbench_local"]
        trusted, keys = known["extra"]["known_hosts"], (known["extra"]["key_file"],)
        reached = {
            node.name: SshTarget(node.name, node.host, trusted, known["port"], known["login"], keys)
            for node in found[1].nodes
        }
        return engine.experiment_context(
            *found, reached, lambda: connect(warehouse.loader), until=until
        )

    monkeypatch.setattr(experiments_dag, "experiment_context", context)
    monkeypatch.setattr(experiments_dag, "connect", lambda *_: connect(warehouse.loader))
    return lambda: experiments_dag._measure_queue("run-1", lambda *_: "running", last_try=True)


@pytest.fixture
def people(
    here: Terminal, warehouse: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, tuple[Play, Callable[..., Job]]]]:
    """Person -> a repository with pull request 7, and what starts the job of a push."""
    with ExitStack() as stack:

        def of(name: str) -> tuple[Play, Callable[..., Job]]:
            play = stack.enter_context(played(here.spool))
            user = PageUser(name, may_change=True)
            play.nightbench = page_client(
                warehouse, here.spool, monkeypatch, user, check=page_app.checked
            )

            def push(commit: str, wheel: str, is_fork: bool = False, **inputs: str) -> Job:
                folder, dist = tmp_path / name / commit, tmp_path / name / f"dist-{commit}"
                folder.mkdir(parents=True)
                slower = 1 + SLOWER * (wheel == "slow")
                make_wheel(dist, f"2.0+{wheel}", STEP_S * slower, BODIES[wheel])
                asked = {"a": "toy=1.0", "b": f"toy=file:{dist}/*.whl", "suite": "trial"}
                asked |= {"url": f"{play.url}/airflow/", "token": AIRFLOW_TOKEN, "rounds": "3"}
                asked |= {key.replace("_", "-"): value for key, value in inputs.items()}
                defaults = {name: about.get("default") for name, about in ACTION["inputs"].items()}
                environment = {
                    "GITHUB_ACTIONS": "true",
                    "GITHUB_ACTION_PATH": str(SCRIPT.parent),
                    "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
                    "GITHUB_OUTPUT": str(folder / "output"),
                    "NIGHTBENCH_INPUTS": json.dumps(defaults | asked),
                    "NIGHTBENCH_CHANGE_URL": PULL.replace("acme", name),
                    "NIGHTBENCH_CHANGE_COMMIT": commit,
                    "NIGHTBENCH_FORK": json.dumps(is_fork),
                    "NIGHTBENCH_PACE": "0.02",
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                }
                job = Job(folder, environment)
                assert job.ask() == 0, job.output
                assert commit in job.comment
                stack.callback(job.wait().process.kill)  # type: ignore[union-attr]  # it was started
                return job

            return play, push

        yield {name: of(name) for name in WHO}


def test_three_peoples_pull_requests_and_a_night(
    people: dict[str, tuple[Play, Callable[..., Job]]],
    measure: Callable[[], list[dict[str, Any]]],
    loader: Warehouse,
    here: Terminal,
) -> None:
    push_of_ada, push_of_bob, push_of_eve = (push for _, push in people.values())
    night = here.spool.run("trial-20261102T120000-0a1b")
    began = datetime.now(UTC).replace(tzinfo=None).isoformat()
    night.save_run({"cluster": "local", "run_kind": "nightly", "started_at": began})

    first, second = push_of_ada(ONE, "slow"), push_of_ada(TWO, "equal")
    assert first.end() == 0
    assert "for a newer commit" in first.outputs["headline"]
    slow = push_of_bob(ONE, "slow", profile="true")
    fork = push_of_eve(ONE, "broken", is_fork=True)
    assert "waits until an operator" in fork.comment
    assert measure() == [], "a night goes on"
    night.save_loaded({})

    held = next(row for row in loader.experiments.find() if row["state"] == "held")
    with page_app.open_desk("olga") as desk:
        desk.move(held["experiment_id"], "queued")
    done = measure()
    assert [each["state"] for each in done] == ["done"] * 4, "three, and a profile"
    assert (second.end(), slow.end(), fork.end()) == (0, 1, 0)
    assert ("**same**" in second.comment) or ("**inconclusive**" in second.comment)
    assert "**slower**" in slow.comment
    assert "| time.sleep |" in slow.comment
    assert "B is inconclusive" in fork.comment
    assert "launches of B dropped" in fork.comment

    hanging = push_of_eve(TWO, "hangs")
    assert [each["state"] for each in measure()] == ["done"]
    assert hanging.end() == 0
    assert "B is inconclusive" in hanging.comment

    rows = loader.experiments.find()
    assert sorted(row["state"] for row in rows) == ["cancelled", *["done"] * 5]
    for row in rows:
        assert marked(row["name"]) == []
    spent = loader.experiments.spent()
    assert {person for _, person in spent} == set(WHO)
    assert sum(spent.values()) == pytest.approx(sum(row["spent_s"] for row in rows))
