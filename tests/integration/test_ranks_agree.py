"""Two ranks with different data and different initial weights end with the same weights.

The environments are built as nodes build them (`agent.py provision`), the ranks are started as
the agent starts them (launch.py, rank.py). The same two ranks without an all-reduce must differ:
otherwise equality would prove nothing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightbench.local.home import find_home

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LIMIT_S = 300.0

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Line -> interpreter of its environment, which is built where it is not there."""
    root = tmp_path_factory.mktemp("node")
    home = find_home()
    env = {"UV_CACHE_DIR": str(home.root / "cache" / "uv"), **os.environ}

    def build(line: str) -> str:
        argv = [sys.executable, str(BENCHMARKS / "agent.py"), "provision", "--root", str(root)]
        argv += ["--line", line, "--variant", "cpu", "--lock-dir", str(root / "locks")]
        if home.uv.exists():
            argv += ["--uv", str(home.uv)]
        done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=False)
        answer = json.loads(done.stdout)
        if "unavailable" in answer:
            pytest.skip(f"{line}: {answer['unavailable']}")
        assert done.returncode == 0, answer
        python: str = answer["python"]
        return python

    return build


def two_ranks(folder: Path, line: str, strategy: str, python: str) -> list[dict[str, Any]]:
    """Runs two ranks on two loopback addresses and returns what they wrote in rank.json."""
    spec = json.loads((BENCHMARKS / "workloads" / "resnet50_v1.5" / "spec.json").read_text())
    names = ["trainer-0", "trainer-1"]
    job = {
        "case": {
            "workload": "resnet50_v1.5",
            "framework": line,
            "strategy": strategy,
            "batch_size_per_device": 2,
            "precision": "fp32",
            "sync": "sync",
        },
        "nodes": [
            {"name": f"n{i + 1}", "data_address": f"127.0.0.{i + 2}", "interface": "lo"}
            for i in range(2)
        ],
        "processes": [
            {
                "name": name,
                "role": "trainer",
                "rank": i,
                "node": f"n{i + 1}",
                "local_rank": 0,
                "device": None,
                "measured": True,
            }
            for i, name in enumerate(names)
        ],
        "protocol": {"warmup_steps": 1, "measured_steps": 3, "min_seconds": 0.5},
        "workload": {"params": spec["scales"]["smoke"]},
        "env": {},
    }
    ports = dict(zip(["master", *names], free_ports(3), strict=True))
    (folder / "go.json").write_text(json.dumps({"epoch": 1, "ports": ports}))
    running = []
    try:
        for rank, name in enumerate(names):
            # A seed of its own for each rank: the weights begin unequal.
            job["workload"]["seed"] = rank + 1
            (folder / f"{name}.json").write_text(json.dumps(job))
            (folder / name).mkdir()
            (started,) = launch(line)(job, f"n{rank + 1}", ports, python, str(BENCHMARKS))
            env = {
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "NIGHTBENCH_JOB_FILE": str(folder / f"{name}.json"),
                "NIGHTBENCH_PROCESS": name,
                "NIGHTBENCH_REPEAT_DIR": str(folder),
                "NIGHTBENCH_PROCESS_DIR": str(folder / name),
                "NIGHTBENCH_CODE": str(BENCHMARKS),
                **started["env"],
            }
            with (folder / name / "out.log").open("w") as log:
                running.append(
                    subprocess.Popen(
                        started["argv"], env=env, stdout=log, stderr=log, start_new_session=True
                    )
                )
        limit_s = time.monotonic() + LIMIT_S
        for process, name in zip(running, names, strict=True):
            code = process.wait(timeout=max(1.0, limit_s - time.monotonic()))
            assert code == 0, (folder / name / "out.log").read_text()[-4000:]
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return [json.loads((folder / name / "rank.json").read_text()) for name in names]


def launch(line: str) -> Callable[..., list[dict[str, Any]]]:
    path = BENCHMARKS / "frameworks" / line / "launch.py"
    spec = importlib.util.spec_from_file_location(f"launch_{line}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    processes: Callable[..., list[dict[str, Any]]] = module.processes
    return processes


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.mark.parametrize("line", ["pytorch", "paddle3"])
def test_two_ranks_end_with_the_same_weights(
    line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    first, second = two_ranks(tmp_path, line, "collective", interpreter(line))
    assert first["loss"]["first"] != second["loss"]["first"], "both ranks had the same data"
    assert first["transport"] == second["transport"] == "gloo/socket/lo"
    assert first["parameters"] == second["parameters"] == 25_557_032
    assert first["weights_digest"] == second["weights_digest"]


@pytest.mark.parametrize("line", ["pytorch", "paddle3"])
def test_two_ranks_that_exchange_nothing_differ(
    line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    first, second = two_ranks(tmp_path, line, "single", interpreter(line))
    assert first["weights_digest"] != second["weights_digest"]
