"""rank.py as a process, with a framework of plain Python in a copy of the shipped tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import batch_search
import pytest

MODULES = (
    *("rank", "measure", "recorder", "base_runtime", "base_trainer", "movement", "wrappers"),
    *("extras", "heap", "profiling", "batch_search", "rendezvous", "traffic"),
)
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
RUNTIME = """
import os

from base_runtime import Base


class Runtime(Base):
    line = "plain"

    def versions(self):
        return dict(super().versions(), plain="1.0", nccl=os.environ.get("NCCL_DEBUG_SUBSYS"))"""
TRAINER = """
import os
import signal

import numpy
from base_trainer import Base


class Trainer(Base):
    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        self.model = network.model(context.params)
        made = self.initial_weights({"weight": self.model})
        assert made["weight"].tolist() == [1.0, 1.0, 1.0]
        assert self.example()["x"].shape == (context.batch_size,)
        self.made = made
        self.kept = []
        self.bad = context.params.get("bad_step")
        self.held = numpy.ones(context.batch_size * context.params.get("sample_bytes", 0), "int8")
        if context.batch_size > context.params.get("most", 10**9):
            raise ValueError(context.params["complaint"])
        if "ALONE" in os.environ:
            assert "PEERS" not in os.environ

    def weights(self):
        return self.made

    def step(self):
        self.kept.append(float("nan") if len(self.kept) + 1 == self.bad else 1.0)
        if self.bad == "crash":
            raise RuntimeError("the framework broke")
        if self.bad == "ask":
            os.kill(os.getpid(), signal.SIGUSR2)
        if len(self.kept) == 9:
            open(os.path.join(os.environ["NIGHTBENCH_REPEAT_DIR"], "drain"), "w").close()

    def losses(self):
        return self.kept

    def serve(self):
        print("served in the group" if self.context.grouped else "served")
"""
LAUNCH = """
def processes(job, node, ports, python, code):
    assert job["case"]["strategy"] == "single", "an attempt is alone"
    (process,) = job["processes"]
    return [{"name": process["name"], "argv": [python, code + "/rank.py"], "env": {"ALONE": "1"}}]
"""
NETWORK = """
def model(params):
    return params.get("shape", [3])
"""
DATA = """
import numpy


def batch(params, batch_size, random):
    return {"x": random.rand(batch_size)}


def weights(params, random):
    return {"weight": numpy.ones(3)}
"""


def run(
    tmp_path: Path,
    name: str = "trainer-0",
    params: dict[str, Any] | None = None,
    trainers: int = 1,
    profiled_steps: int = 0,
    **axes: Any,
) -> tuple[subprocess.CompletedProcess[str], Path]:
    code = tmp_path / "code"
    code.mkdir()
    for module in MODULES:
        shutil.copy(BENCHMARKS / f"{module}.py", code)
    shutil.copytree(BENCHMARKS / "readers", code / "readers")
    for path, text in (
        ("frameworks/plain/runtime.py", RUNTIME),
        ("frameworks/plain/trainer.py", TRAINER),
        ("frameworks/plain/framework.json", '{"api": "python", "launcher_env": ["PEERS"]}'),
        ("frameworks/plain/launch.py", LAUNCH),
        ("workloads/adding_v1.5/python.py", NETWORK),
        ("workloads/adding_v1.5/data.py", DATA),
        ("workloads/adding_v1.5/spec.json", '{"parameters": 3}'),
    ):
        (code / path).parent.mkdir(parents=True, exist_ok=True)
        (code / path).write_text(text)
    repeat = tmp_path / "repeats" / "001"
    folder = repeat / name
    folder.mkdir(parents=True)
    here = {"rank": 0, "node": "n1", "device": None}
    process = {"role": "trainer", "measured": True, **here}
    ranks = [{**process, "name": f"trainer-{rank}", "rank": rank} for rank in range(trainers)]
    server = {"name": "pserver-0", "role": "pserver", "measured": False, **here}
    case = {
        "framework": "plain",
        "workload": "adding_v1.5",
        "strategy": "single",
        "batch_size_per_device": 2,
        "precision": "fp32",
        "sync": "sync",
        "data": "synthetic",
        "compression": "none",
        "memory_mb": None,
    }
    job = {
        "case": {**case, **axes},
        "nodes": [{"name": "n1", "data_address": "127.0.0.1"}],
        "processes": [*ranks, server],
        "protocol": {"warmup_steps": 2, "measured_steps": 3, "min_seconds": 0.0},
        "workload": {"params": params or {}, "seed": 1, "data_path": None},
        "env": {"NIGHTBENCH_PROFILE_STEPS": str(profiled_steps)},
        "run_id": "profile-1",
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    (repeat / "go.json").write_text(json.dumps({"epoch": 1, "ports": {}}))
    env = {
        **os.environ,
        "NIGHTBENCH_JOB_FILE": str(tmp_path / "job.json"),
        "NIGHTBENCH_PROCESS": name,
        "NIGHTBENCH_REPEAT_DIR": str(repeat),
        "NIGHTBENCH_PROCESS_DIR": str(folder),
        "NIGHTBENCH_CODE": str(code),
        "PEERS": "2",
    }
    argv = [sys.executable, str(code / "rank.py")]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300), folder


def phases(folder: Path) -> list[str]:
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    return [line["phase"] for line in lines if line["kind"] == "phase"]


def test_a_rank_that_is_asked_tells_its_stack_and_goes_on(tmp_path: Path) -> None:
    done, folder = run(tmp_path, params={"bad_step": "ask"})
    assert done.returncode == 0, done.stderr
    told = (folder / "faulthandler.txt").read_text()
    assert told.count("Current thread") == 5, "once in each step"
    assert "in step" in told
    assert "in measure" in told


def test_a_rank_measures_and_writes_its_result(tmp_path: Path) -> None:
    done, folder = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert phases(folder) == ["import", "build", "warmup", "window", "finish"]
    rank = json.loads((folder / "rank.json").read_text())
    assert rank["schema"] == "nightbench.rank/1"
    assert rank["window"]["steps"] == len(rank["step_seconds"]) == 3
    assert len(rank["step_end_s"]) == 5
    early, window = [1.0] * 5, [1.0] * 3
    assert rank["loss"] == {"first": 1.0, "early": early, "window": window, "last": 1.0}
    assert rank["loss_finite"] is True
    assert (rank["versions"]["plain"], rank["versions"]["nccl"]) == ("1.0", None)
    assert rank["parameters"] == 3
    assert len(rank["weights_digest"]) == 64
    assert rank["peak_memory"]["resident_bytes"] > 1_000_000
    assert 0 < rank["time_to_first_step_s"] < 60
    assert sorted(p.name for p in folder.iterdir()) == [
        "faulthandler.txt",
        "rank.json",
        "steps.jsonl",
    ]
    assert (folder / "faulthandler.txt").read_text() == "", "nobody has asked"


def test_nccl_may_log_its_choices_where_no_figure_counts(tmp_path: Path) -> None:
    done, folder = run(tmp_path, profiled_steps=1)
    assert done.returncode == 0, done.stderr
    rank = json.loads((folder / "rank.json").read_text())
    assert (rank["versions"]["nccl"], rank["profile"]["steps"]) == ("INIT,NET,TUNING", 1)


def test_a_loss_that_is_no_number_ends_with_3_and_a_result(tmp_path: Path) -> None:
    done, folder = run(tmp_path, params={"bad_step": 4})
    assert done.returncode == 3
    assert "not finite" in done.stderr
    rank = json.loads((folder / "rank.json").read_text())
    assert rank["loss_finite"] is False
    assert rank["loss"]["window"] == [1.0, None, 1.0]


def test_a_crash_leaves_a_traceback_and_no_result(tmp_path: Path) -> None:
    done, folder = run(tmp_path, params={"bad_step": "crash"})
    assert done.returncode not in (0, 3)
    assert "the framework broke" in done.stderr
    assert not (folder / "rank.json").exists()


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"shape": [3, 1]}, "weight: found (3, 1) in the network; expected (3,) by data.py"),
        ({"parameters": 4}, "found 3 trainable parameters; expected 4 by spec.json"),
    ],
)
def test_a_network_that_is_another_is_refused(
    tmp_path: Path, params: dict[str, Any], said: str
) -> None:
    done, folder = run(tmp_path, params=params)
    assert done.returncode not in (0, 3)
    assert said in done.stderr
    assert not (folder / "rank.json").exists()


@pytest.mark.parametrize(("sync", "drained"), [("sync", 0), ("async", 4)])
def test_only_asynchronous_trainers_drain(tmp_path: Path, sync: str, drained: int) -> None:
    done, folder = run(tmp_path, strategy="parameter_server", sync=sync)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "rank.json").read_text())["drain_steps"] == drained
    assert ("drain" in phases(folder)) == bool(drained)


@pytest.mark.parametrize("strategy", ["parameter_server", "collective"])
def test_a_process_that_is_not_measured_serves_outside_the_group_of_trainers(
    tmp_path: Path, strategy: str
) -> None:
    done, folder = run(tmp_path, name="pserver-0", trainers=2, strategy=strategy)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "served"
    assert not (folder / "rank.json").exists()


# --- batch_size_per_device: max -------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, 100, 1000])
def test_the_largest_size_is_found_by_bisection(most: int) -> None:
    asked: list[int] = []

    def fits(size: int) -> bool:
        asked.append(size)
        return size <= most

    assert batch_search.largest(fits) == most
    assert len(asked) <= 2 * most.bit_length() + 1
    assert batch_search.largest(lambda size: False) == 0
    assert batch_search.largest(lambda size: True) == batch_search.MOST


def test_a_rank_measures_with_the_largest_batch_that_fits(tmp_path: Path) -> None:
    sample = 10**6
    params = {"sample_bytes": sample}
    done, folder = run(tmp_path, params=params, batch_size_per_device="max", memory_mb=200)
    assert done.returncode == 0, done.stderr
    rank = json.loads((folder / "rank.json").read_text())
    found = rank["batch_size_per_device"]
    # A tenth of the limit stays free, and what rank and attempt take without a batch.
    assert 60 < found < 180
    assert rank["samples_per_step"] == found
    assert rank["peak_memory"]["resident_bytes"] < 0.9 * 200e6
    assert rank["peak_memory"]["resident_bytes"] + 30 * sample > 0.9 * 200e6
    assert phases(folder)[0] == "search"
    assert not (folder / "attempts").exists()
    assert (tmp_path / "batch_size_per_device").read_text() == str(found)


def test_later_repeats_take_what_the_first_one_found(tmp_path: Path) -> None:
    (tmp_path / "batch_size_per_device").write_text("5")
    done, folder = run(tmp_path, batch_size_per_device="max", memory_mb=200)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "rank.json").read_text())["batch_size_per_device"] == 5
    assert "search" not in phases(folder)


@pytest.mark.parametrize("complaint", ["CUDA out of memory. Tried to allocate", "std::bad_alloc"])
def test_what_frameworks_say_of_memory_ends_an_attempt_and_not_the_rank(
    tmp_path: Path, complaint: str
) -> None:
    params = {"most": 11, "complaint": complaint}
    done, folder = run(tmp_path, params=params, batch_size_per_device="max")
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "rank.json").read_text())["batch_size_per_device"] == 11


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"most": 3, "complaint": "no kernel"}, "with a batch of 4 ended with code 1:"),
        ({"most": 3, "complaint": "no kernel"}, "ValueError: no kernel"),
        ({"sample_bytes": 10**9}, "a batch of 1 sample does not fit into the memory of a rank ("),
    ],
)
def test_an_attempt_that_fails_otherwise_ends_the_rank(
    tmp_path: Path, params: dict[str, Any], said: str
) -> None:
    done, folder = run(tmp_path, params=params, batch_size_per_device="max", memory_mb=200)
    assert done.returncode == 1
    assert said in done.stderr
    assert not (folder / "attempts").exists()
