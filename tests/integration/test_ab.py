"""`nightbench ab` over real SSH: two builds of which one is slower, by wrappers of a Python."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightbench.spool import Spool

REPO = Path(__file__).resolve().parents[2]
CASE = "sleep-fake-single-1x1-bs2-smoke"
SUITE = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 30, repeats: 7}
matrix:
  - workload: sleep
    frameworks: fake
    strategy: single
    devices: 1x1
    batch_size_per_device: 2
"""
COMMAND = [sys.executable, "-c", "from nightbench.cli import main; main()"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        return int(probe.getsockname()[1])


def prefix(folder: Path, **knobs: str) -> Path:
    """A build of the line fake: a prefix whose python sets the knobs of a rank."""
    python = folder / "bin/python"
    python.parent.mkdir(parents=True)
    words = " ".join(f"FAKE_{name.upper()}={value}" for name, value in knobs.items())
    python.write_text(f'#!/bin/sh\n{words} exec python3 "$@"\n')
    python.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home and a dags/ folder with a local node that answers SSH, and some builds."""
    place = tmp_path_factory.mktemp("ab")
    home, port = place / "home", free_port()
    home.mkdir()
    for name, text in (
        ("suites/trial.yaml", SUITE),
        ("clusters/local.yaml", (REPO / "dags/clusters/local.yaml").read_text()),
    ):
        path = place / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    prefix(place / "usual", step_s="0.02")
    prefix(place / "slower", step_s="0.022")
    prefix(place / "broken", die_at_step="3")
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


def ab(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "ab", *words],
        env=environment(place),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def builds(place: Path, a: str, b: str) -> list[str]:
    return [f"fake={place / a}", f"fake={place / b}"]


def marked(comparison_id: str) -> list[int]:
    """Processes on this machine that carry the comparison's mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = entry.read_bytes()
        except OSError:
            continue
        if f"={comparison_id}/".encode() in text:
            found.append(int(entry.parent.name))
    return found


def begin(place: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "ab", *words],
        env=environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until(running: subprocess.Popen[str], words: str) -> None:
    assert running.stdout is not None
    said = []
    for line in running.stdout:
        said.append(line)
        if words in line:
            return
    pytest.fail("".join(said))


def wait_for_a_launch(comparison_id: str) -> None:
    limit = time.monotonic() + 60
    while not marked(comparison_id) and time.monotonic() < limit:
        time.sleep(0.05)
    assert marked(comparison_id)


def test_a_slower_build_is_told_with_its_size(place: Path) -> None:
    words = [*builds(place, "usual", "slower"), "--case", CASE, "--rounds", "4", "--json"]
    done = ab(place, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    (row,) = document["cases"]
    assert (document["verdict"], row["verdict"], row["n"]) == ("slower", "slower", 4)
    # Ten per cent more sleep: the interval holds what the wrappers say, less what a step costs.
    assert row["low"] < row["ratio"] < row["high"] < 0.99
    assert row["ratio"] == pytest.approx(1 / 1.1, abs=0.03)
    orders = row["order"]
    assert {*orders} == {"AB", "BA"}
    assert all(one != next_one for one, next_one in itertools.pairwise(orders))
    # The figures are those of the steps: the same rules as for every other run.
    launches = Spool(place / "home/spool").comparison(document["id"])
    sides = {"a": [], "b": []}  # type: dict[str, list[float]]
    for number in range(8):
        store = launches.case(CASE, number)
        result, job = store.result(1, "n1"), store.job()
        assert result is not None
        assert job is not None
        assert job["job_id"] == f"{document['id']}/{CASE}/g{number}"
        summary = result["processes"][0]["summary"]
        samples = summary["samples_per_step"] * len(summary["step_seconds"])
        side = "a" if job["framework"]["build_id"] == document["a"]["build_id"] else "b"
        sides[side].append(samples / summary["window"]["wall_s"])
    assert [each["a"] for each in row["rounds"]] == pytest.approx(sides["a"])
    assert [each["b"] for each in row["rounds"]] == pytest.approx(sides["b"])
    assert Spool(place / "home/spool").runs() == []  # no history, no baseline knows of it
    assert marked(document["id"]) == []


def test_interrupted_killed_and_resumed_a_build_beside_itself_is_never_slower(place: Path) -> None:
    words = [*builds(place, "usual", "usual"), "--suite", "trial", "--rounds", "3"]
    running = begin(place, *words)
    until(running, "round 1 of 3")
    comparison_id = Spool(place / "home/spool").comparisons()[-1].run_id
    wait_for_a_launch(comparison_id)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 130, said
    assert f"nightbench ab --resume {comparison_id}" in said
    assert marked(comparison_id) == []

    running = begin(place, "--resume", comparison_id)
    until(running, "round 1 of 3")
    wait_for_a_launch(comparison_id)
    running.kill()
    running.communicate()

    done = ab(place, "--resume", comparison_id, "--json")
    assert done.returncode in (0, 3), done.stdout + done.stderr
    document = json.loads(done.stdout)
    (row,) = document["cases"]
    assert row["verdict"] == ("same" if done.returncode == 0 else "inconclusive")
    assert (row["n"], row["stopped"]) == (3, None)
    assert row["dropped"][0]["status"] == "interrupted"
    assert marked(comparison_id) == []
    again = ab(place, "--resume", comparison_id)
    assert again.returncode == done.returncode
    assert f"{row['ratio']:.4f}" in again.stdout


def test_cancelled_from_elsewhere_it_ends_without_a_verdict(place: Path) -> None:
    running = begin(place, *builds(place, "usual", "usual"), "--suite", "trial", "--rounds", "3")
    until(running, "3 rounds on local")
    comparison_id = Spool(place / "home/spool").comparisons()[-1].run_id
    wait_for_a_launch(comparison_id)
    words = [*COMMAND, "cancel", comparison_id]
    told = subprocess.run(
        words, env=environment(place), capture_output=True, text=True, timeout=120, check=True
    )
    assert f"nightbench ab --resume {comparison_id}" in told.stdout
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 3, said
    assert "cancelled by the user" in said
    assert marked(comparison_id) == []


def test_a_build_that_breaks_gives_no_verdict_and_is_named(place: Path) -> None:
    done = ab(place, *builds(place, "usual", "broken"), "--case", CASE)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "launches of B failed 2 times in a row" in done.stdout
    assert "trainer-0 exited with code 1" in done.stdout


def test_a_prefix_that_is_not_there_is_told_before_anything_is_measured(place: Path) -> None:
    done = ab(place, *builds(place, "usual", "nowhere"), "--case", CASE)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "bin/python is not there" in done.stderr
    comparison = Spool(place / "home/spool").comparisons()[-1]
    assert comparison.case_ids() == []
