"""A whole stack for tests: Airflow, PostgreSQL and local nodes in a home of their own."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.contained import folder_of_server
from tests.shipped import BENCHMARKS, shipped

from nightbench.core.errors import UserError
from nightbench.local import deployment, lifecycle
from nightbench.local.airflow_api import AirflowApi
from nightbench.local.home import Home, venv_bin
from nightbench.spool import RunSpool, Spool
from nightbench.warehouse import Warehouse, connect

REPO = Path(__file__).resolve().parents[2]
WAIT_S = 400.0

CLUSTER = (REPO / "dags" / "clusters" / "local.yaml").read_text(encoding="utf-8")
SUITE = """\
suite: {name}
owner: tests
cluster: local
scale: smoke
protocol: {{warmup_steps: 2, measured_steps: {steps}, repeats: {repeats}}}
matrix:
  - workload: {workload}
    frameworks: [{framework}]
    strategy: collective
    devices: {devices}
    batch_size_per_device: 2
env: {env}
timeouts: {{repeat: 200s, progress: 100s}}
"""


@dataclass(frozen=True)
class Live:
    """The running stack."""

    stack: deployment.Stack
    api: AirflowApi
    settings: Mapping[str, str]
    """Variables that it was started with; code that is to find it needs them too."""

    @property
    def spool(self) -> Spool:
        return Spool(self.stack.home.spool)

    @property
    def place(self) -> Path:
        """Holds home, dags/ and benchmarks/."""
        return self.stack.home.root.parent

    def trigger(self, suite: str, **conf: Any) -> str:
        return self.api.trigger("on_demand", {"suite": suite, **conf})

    def state(self, dag_run: str, dag_id: str = "on_demand") -> str:
        return str((self.api.dag_run(dag_id, dag_run) or {})["state"])

    def ended(self, dag_run: str, dag_id: str = "on_demand", wait_s: float = WAIT_S) -> str:
        self.until(
            lambda: self.state(dag_run, dag_id) in ("success", "failed"),
            f"{dag_run} to end",
            wait_s,
        )
        return self.state(dag_run, dag_id)

    def until(self, true: Callable[[], Any], what: str, wait_s: float = WAIT_S) -> Any:
        deadline = time.monotonic() + wait_s
        while not (found := true()):
            late = time.monotonic() > deadline
            assert not late, f"waited {wait_s:.0f} s for {what}\n{self.where_it_stands()}"
            time.sleep(0.5)
        return found

    def where_it_stands(self) -> str:
        """The newest runs with their tasks, what Airflow's servers said last, and where they are.

        The stacks tell a server or a task that hangs: watchdogs start a hung triggerer again, but
        only after some 150 s (30 of silence, 30 without a heartbeat, 3 checks).
        """
        newest = {"order_by": "-run_after", "limit": 3}
        answer = self.api._send("GET", "/api/v2/dags/~/dagRuns", params=newest)
        lines = []
        for run in answer.json()["dag_runs"]:
            lines.append(f"{run['dag_id']} {run['dag_run_id']}: {run['state']}")
            for task in self.api.task_instances(run["dag_id"], run["dag_run_id"]):
                words = [task[key] for key in ("task_id", "map_index", "try_number", "state")]
                lines.append(f"    {' '.join(map(str, words))}")
        for server in ("scheduler", "triggerer"):
            text = (self.stack.home.logs / f"{server}.log").read_text("utf-8", errors="replace")
            lines += [f"--- {server}", *(line[:300] for line in text.splitlines()[-25:])]
            running = self.stack.running(server)
            for pid in [running.pid, *descendants(running.pid)] if running else ():
                words = [str(venv_bin() / "py-spy"), "dump", "--nonblocking", "--pid", str(pid)]
                dump = subprocess.run(words, capture_output=True, text=True, check=False)
                lines.append(dump.stdout or dump.stderr)
        for log in sorted(self.stack.home.logs.glob("watchdog*.log")):
            lines += [f"--- {log.name}", *log.read_text("utf-8").splitlines()[-10:]]
        return "\n".join(lines)

    def run_of(self, dag_run: str) -> RunSpool:
        def find() -> RunSpool | None:
            for run in self.spool.runs():
                if (run.run() or {}).get("dag_run_id") == dag_run and run.planned():
                    return run
            return None

        found: RunSpool = self.until(find, f"the plan of {dag_run}")
        return found

    def rows(self, run_id: str) -> list[dict[str, Any]]:
        with contextlib.closing(connect(self.stack.dsn("nightbench_reader"))) as connection:
            return Warehouse(connection).runs.results(run_id)

    def judged(self, run_id: str) -> list[dict[str, Any]]:
        def find() -> list[dict[str, Any]]:
            rows = self.rows(run_id)
            return rows if all(row["verdict"] for row in rows) else []

        rows: list[dict[str, Any]] = self.until(find, f"the verdicts of {run_id}")
        return rows

    def tasks(self, dag_run: str, task_id: str) -> list[dict[str, Any]]:
        every = self.api.task_instances("on_demand", dag_run)
        return [task for task in every if task["task_id"] == task_id]

    def launches(self, run_id: str) -> dict[tuple[str, int, str], int]:
        """(job folder, repeat, process) -> launches, from the agents' own logs."""
        found: dict[tuple[str, int, str], int] = {}
        for log in self.stack.home.cluster.glob(
            f"*/.nightbench-node/jobs/{run_id}/*/*/*/agent.jsonl"
        ):
            for line in log.read_text(encoding="utf-8").splitlines():
                event = json.loads(line)
                if event["event"] == "launch":
                    job = str(log.parent.relative_to(log.parents[3]))
                    key = (job, event["repeat"], event["process"])
                    found[key] = found.get(key, 0) + 1
        return found


@contextmanager
def live_airflow(
    suites: Mapping[str, Mapping[str, Any]],
    cluster: str = CLUSTER,
    benchmarks: Path = BENCHMARKS,
) -> Iterator[Live]:
    """Start a stack, with suites made from `SUITE`; nothing of it is left at the end."""
    with airflow_stack(suites, cluster, benchmarks) as live, environment(live.settings):
        yield live


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process, for a while."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        yield


@contextmanager
def airflow_stack(
    suites: Mapping[str, Mapping[str, Any]],
    cluster: str = CLUSTER,
    benchmarks: Path = BENCHMARKS,
) -> Iterator[Live]:
    """As `live_airflow`, but this process's own variables stay as they are."""
    root = folder_of_server("nbair-")
    dags = root / "dags"
    for folder in ("suites", "clusters"):
        (dags / folder).mkdir(parents=True)
    (dags / "clusters" / "local.yaml").write_text(cluster, encoding="utf-8")
    for name, changes in suites.items():
        write_suite(dags, name, changes)
    home = Home(root / "home")
    shipped(root, benchmarks)
    settings = {
        "NIGHTBENCH_HOME": str(home.root),
        "NIGHTBENCH_DAGS": str(dags),
        "NIGHTBENCH_BENCHMARKS": str(root / "benchmarks"),
        # `make setup` brought it to the checkout's home; this home is another one.
        "NIGHTBENCH_UV": str(venv_bin() / "uv"),
        # A worker that was killed is missed after this; Airflow's default is five minutes.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    }
    try:
        with environment(settings):
            for _ in lifecycle.up(home):
                pass
            stack = deployment.load(home)
        with stack.api() as api:
            for dag_id in ("on_demand", "nightbench_verdicts"):
                wait_for_dag(api, dag_id)
            yield Live(stack, api, settings)
    finally:
        with environment(settings):
            for _ in lifecycle.down(home):
                pass
    shutil.rmtree(root)


def write_suite(dags: Path, name: str, changes: Mapping[str, Any]) -> None:
    """Write the file of a suite, or write it anew: its next run is planned from it.

    `text` among the changes is the whole file.
    """
    values: dict[str, Any] = {"workload": "sleep", "framework": "fake", "devices": "[1x1, 2x1]"}
    values |= {"steps": 20, "repeats": 2, "env": "{}", **changes}
    text = values["text"] if "text" in values else SUITE.format(name=name, **values)
    (dags / "suites" / f"{name}.yaml").write_text(text, encoding="utf-8")


def wait_for_dag(api: AirflowApi, dag_id: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while patiently(lambda: api.dag(dag_id)) is None:
        assert patiently(api.import_errors) == {}
        assert time.monotonic() < deadline, f"no DAG {dag_id}"
        time.sleep(1)
    patiently(lambda: api.unpause(dag_id))


def patiently(ask: Callable[[], Any], wait_s: float = 120.0) -> Any:
    """Ask a control plane that may be coming up right now, or that other work keeps waiting."""
    until = time.monotonic() + wait_s
    while True:
        try:
            return ask()
        except UserError:
            if time.monotonic() > until:
                raise
            time.sleep(1)


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    return [process.pid for process in psutil.Process(pid).children(recursive=True)]
