"""`nightbench run --direct` over real SSH: no scheduler, no warehouse, nothing left on Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nightbench.spool import Spool

REPO = Path(__file__).resolve().parents[2]
SUITE = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 20, repeats: 2}
matrix:
  - workload: sleep
    frameworks: fake
    strategy: collective
    devices: [1x1, 2x1]
    batch_size_per_device: 2
  - workload: sleep
    frameworks: fake
    strategy: parameter_server
    trainers: 2
    sync: async
    batch_size_per_device: 2
"""
COMMAND = [sys.executable, "-c", "from nightbench.cli import main; main()"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home and a dags/ folder with two local nodes that answer SSH."""
    place = tmp_path_factory.mktemp("direct")
    home, port = place / "home", free_port()
    home.mkdir()
    for name, text in (
        ("suites/trial.yaml", SUITE),
        ("clusters/local.yaml", (REPO / "dags/clusters/local.yaml").read_text()),
    ):
        path = place / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    words = ["--home", str(home), "--nodes", "2", "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, "-m", "nightbench.stack.local_cluster", *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    known = json.loads((home / "cluster/server.json").read_text())
    extra = {"key_file": known["client_key"], "known_hosts": known["known_hosts"]}
    connection = {
        "conn_type": "ssh",
        "host": "127.0.0.2",
        "port": port,
        "login": known["user"],
        "extra": extra,
    }
    (home / "connections.json").write_text(json.dumps({"nightbench_local": connection}))
    yield place
    server.terminate()
    server.wait(20)
    server.stdout.close()


def environment(place: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "NIGHTBENCH"))}
    return {
        **kept,
        "NIGHTBENCH_HOME": str(place / "home"),
        "NIGHTBENCH_DAGS": str(place / "dags"),
    }


def marked(run_id: str) -> list[int]:
    """Processes on this machine that carry the run's mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = entry.read_bytes()
        except OSError:
            continue
        if f"={run_id}/".encode() in text:
            found.append(int(entry.parent.name))
    return found


def newest(place: Path) -> str:
    return max(
        Spool(place / "home/spool").runs(), key=lambda run: str((run.run() or {})["started_at"])
    ).run_id


def test_a_suite_is_measured_and_its_figures_come_from_the_steps(place: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "run", "trial", "--direct"],
        env=environment(place),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "case 1 of 3" in done.stdout
    assert "not loaded, it waits in" in done.stderr
    printed = subprocess.run(
        [*COMMAND, "results", "--json"],
        env=environment(place),
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    one, two, served = json.loads(printed.stdout)
    assert [row["n"] for row in (one, two, served)] == [2, 2, 2]
    assert two["speedup"] == pytest.approx(two["throughput"] / one["throughput"])
    assert served["speedup"] is None
    run = Spool(place / "home/spool").run(one["run_id"])
    figures = []
    for number in (1, 2):
        result = run.case(one["case_id"]).result(number, "n1")
        assert result is not None
        summary = result["processes"][0]["summary"]
        samples = summary["samples_per_step"] * len(summary["step_seconds"])
        figures.append(samples / summary["window"]["wall_s"])
    assert one["throughput"] == pytest.approx(sum(figures) / 2)
    assert (place / "home/reports" / f"{one['run_id']}.md").is_file()
    assert marked(one["run_id"]) == []


def test_ctrl_c_leaves_no_process_and_says_what_was_not_measured(place: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "run", "trial", "--direct", "--repeats", "50"],
        env=environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert running.stdout is not None
    for line in running.stdout:
        if "repeat 1 of 50" in line:
            break
    run_id = newest(place)
    until = time.monotonic() + 60
    while not marked(run_id) and time.monotonic() < until:
        time.sleep(0.1)
    assert marked(run_id)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 130, said
    assert "was cancelled; its processes on the nodes have been ended" in said
    assert marked(run_id) == []
    run = Spool(place / "home/spool").run(run_id)
    outcomes = [run.case(planned["case_id"]).outcome() for planned in run.planned()]
    assert [(outcome or {})["status"] for outcome in outcomes] == ["cancelled"] * 3


def test_a_run_whose_process_was_killed_is_closed_once_its_leases_have_ended(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = subprocess.Popen(
        [*COMMAND, "run", "trial", "--direct", "--repeats", "50"],
        env=environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert running.stdout is not None
    for line in running.stdout:
        if "repeat 1 of 50" in line:
            break
    run = Spool(place / "home/spool").run(newest(place))
    monkeypatch.setenv("NIGHTBENCH_HOME", str(place / "home"))
    from nightbench.orchestration.runs import ORPHANED, close_abandoned

    later = datetime.now(UTC) + 2 * ORPHANED
    assert run.is_steered() is True
    assert run.run_id not in close_abandoned(later)  # it is measured right now

    running.kill()
    running.wait()
    running.stdout.close()

    assert run.run_id not in close_abandoned(datetime.now(UTC))  # its gang has a lease still
    assert close_abandoned(later) == [run.run_id]
    assert (run.run() or {})["ended_at"]
    words = [*COMMAND, "cancel", run.run_id]
    subprocess.run(words, env=environment(place), check=True, timeout=120)
