"""The Compose stack with a real engine: a run through REST, services that die and hang, a password.

With two Celery workers. Needs a Docker engine that `docker compose` reaches, and its base images: a
registry's, or those that `docker/bases.sh` makes (docs/compose.md names the variables). The nodes
measure the line `fake`, which needs no index.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.live_airflow import REPO, SUITE

PROJECT = "nightbench-drill"
SERVICES = ("dag-processor", "triggerer", "scheduler", "api-server", "worker1")
FILES = ("compose.yaml", "compose.celery.yaml")
LOCKS = "control s3 celery"
CASE = "sleep-fake-collective-2x1-bs2-smoke"


def missing() -> str:
    """Why this cannot run here; nothing if it can."""
    if shutil.which("docker") is None:
        return "no docker here"
    for words in (["info"], ["compose", "version"]):
        if subprocess.run(["docker", *words], capture_output=True, check=False).returncode:
            return f"docker {' '.join(words)} fails here"
    return ""


pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Stack:
    """The stack, and the commands on it."""

    folder: Path
    env: dict[str, str]

    def compose(self, *words: str, check: bool = True) -> str:
        files = [f"-f{self.folder / 'docker' / name}" for name in FILES]
        done = subprocess.run(
            ["docker", "compose", "-p", PROJECT, *files, *words],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def up(self, *words: str) -> None:
        self.compose("up", "-d", *words)

    def inside(self, service: str, *words: str, check: bool = True) -> str:
        return self.compose("exec", "-T", service, *words, check=check)

    def started_at(self, service: str) -> str:
        container = self.compose("ps", "-q", service).strip()
        form = ["docker", "inspect", "-f", "{{.State.StartedAt}}", container]
        return subprocess.run(
            form, env=self.env, capture_output=True, text=True, check=True
        ).stdout.strip()

    def secrets(self, *words: str) -> None:
        script = str(self.folder / "docker" / "make_secrets.py")
        subprocess.run([sys.executable, script, *words], check=True)


def until(true: Callable[[], object], what: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not true():
        assert time.monotonic() < deadline, f"waited {wait_s:.0f} s for {what}"
        time.sleep(2)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A copy of the checkout, as it would be cloned, with a suite of its own."""
    folder = tmp_path_factory.mktemp("compose")
    for name in ("docker", "dags", "plugins", "benchmarks", "sql", "tools", "requirements"):
        ignored = shutil.ignore_patterns("__pycache__", "node_modules", "secrets")
        shutil.copytree(REPO / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "LICENSE", ".dockerignore"):
        shutil.copy(REPO / name, folder / name)
    text = SUITE.format(
        **{"name": "good", "workload": "sleep", "framework": "fake", "devices": "[2x1]"},
        **{"steps": 40, "repeats": 3, "env": '{FAKE_STEP_S: "0.5"}'},
    ).replace("cluster: local", "cluster: compose")
    (folder / "dags" / "suites" / "good.yaml").write_text(text, encoding="utf-8")
    folder.chmod(0o755)
    made = Stack(folder, {**os.environ, "NIGHTBENCH_PORT": "18080", "NIGHTBENCH_LOCKS": LOCKS})
    made.secrets()
    if pip := os.environ.get("NIGHTBENCH_PIP_CONF"):
        shutil.copy(pip, folder / "docker" / "secrets" / "pip.conf.new")
        (folder / "docker" / "secrets" / "pip.conf.new").replace(
            folder / "docker" / "secrets" / "pip.conf"
        )
    try:
        made.up(*([] if os.environ.get("NIGHTBENCH_IMAGE") else ["--build"]))
        yield made
    finally:
        made.compose("down", "-v", "--timeout", "20")
        left = subprocess.run(
            ["docker", "ps", "-aq", "--filter", f"label=com.docker.compose.project={PROJECT}"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert left.stdout == ""


def runs(stack: Stack) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(
        stack.inside("api-server", "nightbench", "results", "--json")
    )
    return found


def test_a_suite_is_measured_through_rest(stack: Stack) -> None:
    stack.inside("api-server", "python", "run_suite.py", "good", "--cluster", "compose")
    (row,) = runs(stack)
    assert (row["case_id"], row["n"]) == (CASE, 3)
    # It was loaded and judged: what is only in the spool has no verdict.
    until(lambda: runs(stack)[0]["verdict"] == "insufficient_data", "the verdict", 120)


def test_nodes_reach_neither_the_database_nor_the_api_server(stack: Stack) -> None:
    program = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()
    print("reached")
except OSError:
    print("not reached")
"""
    for service, port in (("postgres", "5432"), ("api-server", "8080")):
        address = stack.inside(service, "hostname", "-i").split()[0]
        for host in (service, address):
            said = stack.inside("node1", "python3", "-c", program, host, port)
            assert said.strip() == "not reached", (host, port)
    assert stack.inside("node1", "python3", "-c", program, "node2", "2222").strip() == "reached"


def test_a_triggerer_that_is_killed_launches_nothing_twice(stack: Stack) -> None:
    before = {str(row["run_id"]) for row in runs(stack)}
    script = ["api-server", "python", "run_suite.py", "good", "--cluster", "compose"]
    stack.compose("exec", "-d", "-T", *script)
    agents = "pgrep -fc 'agent.py' || true"
    until(lambda: int(stack.inside("node1", "sh", "-c", agents)) > 0, "an agent", 180)
    time.sleep(10)
    stack.compose("kill", "-s", "KILL", "triggerer")
    stack.compose("start", "triggerer")

    def has_ended() -> bool:
        (row,) = runs(stack)
        return row["run_id"] not in before and row["verdict"] == "insufficient_data"

    until(has_ended, "the run to be judged", 400)
    (row,) = runs(stack)
    assert (row["n"], row["status"]) == (3, "ok")
    log = f"grep -h launch /home/bench/.nightbench-node/jobs/{row['run_id']}/*/*/*/agent.jsonl"
    launches = stack.inside("node1", "sh", "-c", log).splitlines()
    assert sum(json.loads(line)["event"] == "launch" for line in launches) == 3


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_that_hangs_is_started_again(stack: Stack, service: str) -> None:
    before = stack.started_at(service)
    # Of all processes but the first, which is tini, and this shell.
    stop = (
        "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = 1 ] || [ $p = $$ ] || kill -STOP $p; done"
    )
    stack.inside(service, "sh", "-c", stop, check=False)
    until(lambda: stack.started_at(service) != before, f"{service} to be started again", 300)
    form = "{{.Health}}"
    until(
        lambda: stack.compose("ps", "--format", form, service).strip() == "healthy",
        f"{service} to be healthy",
        180,
    )


def test_a_password_is_renewed(stack: Stack) -> None:
    old = (stack.folder / "docker" / "secrets" / "nightbench_reader_password").read_text()
    stack.secrets("--renew", "nightbench_reader_password")
    nodes = [stack.started_at(node) for node in ("node1", "postgres")]
    stack.up("--force-recreate", "--wait", "init", *SERVICES)
    assert [stack.started_at(node) for node in ("node1", "postgres")] == nodes
    program = f"""
import psycopg2
try:
    psycopg2.connect(host="postgres", dbname="warehouse", user="nightbench_reader",
                     password={old!r})
    print("let in")
except psycopg2.OperationalError as error:
    print("refused", error)
"""
    said = stack.inside("api-server", "python", "-c", program)
    assert "refused" in said
    assert "password authentication failed" in said
    assert runs(stack)[0]["verdict"] == "insufficient_data"
