"""What lines say of their weights: they move in training, and stand still where there is none."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.framework_gangs import BENCHMARKS, build_environment, job_of, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.timeout(900)]

SINGLE = {"strategy": "single", "trainers": 1}
SERVERS = {"strategy": "parameter_server", "trainers": 2, "pservers": 1}


def cell(line: str, workload: str, *marks: Any, **axes: Any) -> Any:
    axes = {**(SERVERS if "sync" in axes else SINGLE), **axes}
    name = "-".join([line, workload, *([axes["sync"]] if "sync" in axes else [])])
    return pytest.param(line, workload, axes, id=name, marks=marks)


SLOW, LARGE = pytest.mark.slow, pytest.mark.large
CELLS = [
    cell("pytorch", "transformer_base"),
    cell("paddle2", "ctr_dnn", sync="async"),
    cell("paddle1", "word2vec", SLOW, sync="sync"),
    cell("paddle2", "word2vec", SLOW, sync="geo"),
    cell("mxnet", "ctr_dnn", SLOW, sync="async"),
    cell("tensorflow1", "simnet_bow", SLOW, sync="sync"),
    cell("jax", "bert_base", SLOW),
    cell("tensorflow1", "bert_base", SLOW),
    cell("paddle1", "transformer_base", SLOW),
    cell("paddle3", "transformer_base", SLOW),
    cell("mxnet", "bert_base", SLOW),
    cell("tensorflow2", "bert_base", LARGE),
    cell("oneflow", "bert_base", LARGE),
    cell("mindspore", "bert_base", LARGE),
    cell("megengine", "resnet50_v1.5", LARGE),
]


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Line -> interpreter of its environment."""
    root = tmp_path_factory.getbasetemp() / "node"
    return lambda line: build_environment(root, line)


@pytest.mark.parametrize(("line", "workload", "axes"), CELLS)
def test_every_tensor_moves_within_its_bound_unless_the_rate_is_0(
    line: str,
    workload: str,
    axes: dict[str, Any],
    interpreter: Callable[[str], str],
    tmp_path: Path,
) -> None:
    for rate in (None, 0.0):
        job = job_of(line, workload, **axes)
        # Servers of PaddlePaddle 2 get the gradients of a dozen steps at once.
        job["protocol"] |= {"measured_steps": 40 if "sync" in axes else 3}
        if rate is not None:
            job["workload"]["params"]["learning_rate"] = rate
        folder = tmp_path / str(rate)
        folder.mkdir()
        for rank in run_gang(folder, job, interpreter(line)):
            moved = rank["weights_moved"]
            assert moved
            still = {name for name, each in moved.items() if each["largest"] == 0}
            # Asynchronous servers of PaddlePaddle 2 draw a row when its first gradient comes: until
            # then it is zeros, and what is drawn moves it, whatever the rate is.
            drawn = {"table.weight"} if line == "paddle2" else set()
            assert still - drawn == (set() if rate is None else set(moved) - drawn)
            assert all(math.isfinite(each["norm"]) for each in moved.values())
            bounded = [each for each in moved.values() if each["limit"] is not None]
            assert all(each["largest"] <= each["limit"] * 1.01 for each in bounded)


def test_a_frozen_layer_is_named(interpreter: Callable[[str], str], tmp_path: Path) -> None:
    code = tmp_path / "benchmarks"
    shutil.copytree(BENCHMARKS, code, ignore=shutil.ignore_patterns("__pycache__"))
    trainer = code / "frameworks" / "pytorch" / "trainer.py"
    text = trainer.read_text(encoding="utf-8")
    step = "        self.scaler.step(self.optimizer)\n"
    assert text.count(step) == 1
    frozen = "        next(self.model.parameters()).grad = None\n"
    trainer.write_text(text.replace(step, frozen + step), encoding="utf-8")
    folder = tmp_path / "repeat"
    folder.mkdir()
    job = job_of("pytorch", "transformer_base", code=code, **SINGLE)
    (rank,) = run_gang(folder, job, interpreter("pytorch"), code=code)
    still = [name for name, each in rank["weights_moved"].items() if each["largest"] == 0]
    assert len(still) == 1
