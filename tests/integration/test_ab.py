"""`nightbench ab` over real SSH: two builds of which one is slower, by wrappers of a Python."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
CASE = "sleep-fake-single-1x1-bs2-smoke"
SUITE = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 40, repeats: 7}
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


def test_a_slower_build_is_told_with_its_size(place: Path) -> None:
    done = ab(place, *builds(place, "usual", "slower"), "--case", CASE, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    (row,) = document["cases"]
    assert (document["verdict"], row["verdict"], row["n"]) == ("slower", "slower", 7)
    # Ten per cent more sleep: the interval holds what the wrappers say, less what a step costs.
    assert row["low"] < row["ratio"] < row["high"] < 0.99
    assert row["ratio"] == pytest.approx(1 / 1.1, abs=0.03)
    assert row["p_value"] == pytest.approx(2 / 2**7)
    assert len(set(zip(row["order"], row["order"][1:], strict=False))) == 2  # AB BA AB …
    assert marked(document["id"]) == []
    assert "round 7 of 7" in done.stderr


def test_a_build_beside_itself_is_never_slower(place: Path) -> None:
    done = ab(place, *builds(place, "usual", "usual"), "--suite", "trial", "--verbose")
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert "A and B are the same build" in done.stdout
    assert ("same" if done.returncode == 0 else "inconclusive") in done.stdout


def test_bad_usage_is_two_whatever_is_wrong(place: Path) -> None:
    a = f"fake={place / 'usual'}"
    for words, said in (
        ([a], "fewer than two"),
        ([a, "pytorch=2.13.0", "--case", CASE], "two builds of one framework line"),
        ([a, a, "--case", "no-such-case"], "no suite"),
        ([a, a, "--case", CASE, "--min-effect", "much"], "min-effect"),
        ([a, a, "--case", CASE, "--rounds", "2"], "--rounds"),
        ([a, f"fake={place / 'nowhere'}", "--case", CASE], "bin/python is not there"),
        (["--resume", "ab-none"], "ab-none"),
    ):
        done = ab(place, *words)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert said in done.stderr
        assert "Traceback" not in done.stderr
