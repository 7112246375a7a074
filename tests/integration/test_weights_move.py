"""What lines say of their weights: they move in training, and stand still where there is none."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.broken_lines import (
    FROZEN,
    NO_UPDATE,
    NOT_EXCHANGED,
    NOT_SENT,
    broken,
)

from nightbench.testkit.gangs import BENCHMARKS, job_of, refused, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.timeout(900)]

SINGLE = {"strategy": "single", "trainers": 1}
SERVERS = {"strategy": "parameter_server", "trainers": 2, "pservers": 1}


def cell(line: str, workload: str, *marks: Any, **axes: Any) -> Any:
    axes = {**(SERVERS if "sync" in axes else SINGLE), **axes}
    name = "-".join([line, workload, *([axes["sync"]] if "sync" in axes else [])])
    return pytest.param(line, workload, axes, id=name, marks=marks)


SLOW, LARGE = pytest.mark.slow, pytest.mark.large
CELLS = [
    cell("pytorch", "transformer_base", SLOW),
    cell("pytorch", "gpt2", LARGE),
    cell("pytorch", "llama", LARGE),
    cell("pytorch", "mixtral", LARGE),
    cell("paddle2", "ctr_dnn", SLOW, sync="async"),
    cell("paddle1", "word2vec", SLOW, sync="sync"),
    cell("paddle2", "word2vec", LARGE, sync="geo"),
    cell("mxnet", "ctr_dnn", SLOW, sync="async"),
    cell("tensorflow1", "simnet_bow", SLOW, sync="sync"),
    cell("jax", "bert_base", SLOW),
    cell("jax", "gpt2", LARGE),
    cell("jax", "llama", LARGE),
    cell("jax", "mixtral", LARGE),
    cell("tensorflow1", "bert_base", SLOW),
    cell("paddle1", "transformer_base", SLOW),
    cell("paddle3", "transformer_base", SLOW),
    cell("paddle3", "gpt2", LARGE),
    cell("paddle3", "llama", LARGE),
    cell("paddle3", "mixtral", LARGE),
    cell("mxnet", "bert_base", SLOW),
    cell("tensorflow2", "bert_base", LARGE),
    cell("oneflow", "bert_base", LARGE),
    cell("mindspore", "bert_base", LARGE),
    cell("megengine", "resnet50_v1.5", LARGE),
]


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
        ranks = run_gang(folder, job, interpreter(line))
        found = set(refused(job, ranks))
        if rate is not None and "sync" in axes:
            # Where nothing moves nobody sees gradients arrive, unless a row that is drawn looks so.
            found -= {"gradients_arrive"}
        assert found == (set() if rate is None else {"weights_move"})
        for rank in ranks:
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


SINGLE_CELLS = [
    *(pytest.param(line, "transformer_base", id=line, marks=marks) for line, marks in [
        ("pytorch", ()), ("paddle1", SLOW), ("paddle2", SLOW), ("paddle3", SLOW)
    ]),
    *(pytest.param(line, "bert_base", id=line, marks=marks) for line, marks in [
        ("jax", SLOW), ("mxnet", SLOW), ("tensorflow1", SLOW),
        ("tensorflow2", LARGE), ("oneflow", LARGE), ("mindspore", LARGE),
    ]),
    pytest.param("megengine", "resnet50_v1.5", id="megengine", marks=LARGE),
]  # fmt: skip


BREAKAGES = ["no update", "a frozen layer", "learning rate 0"]


def breakages() -> list[Any]:
    """All of the first line, one of each other; the rest is left to `make test-lines`.

    The first of the first line belongs before a commit.
    """
    found = []
    for place, each in enumerate(SINGLE_CELLS):
        for breakage in BREAKAGES:
            rest = place > 0 and breakage != BREAKAGES[place % 3]
            marks = (
                [*each.marks, LARGE if rest else SLOW] if place or breakage != BREAKAGES[0] else []
            )
            found.append(
                pytest.param(*each.values, breakage, id=f"{each.id}-{breakage}", marks=marks)
            )
    return found


@pytest.mark.parametrize(("line", "workload", "breakage"), breakages())
def test_a_line_that_is_broken_is_refused(
    line: str,
    workload: str,
    breakage: str,
    interpreter: Callable[[str], str],
    tmp_path: Path,
) -> None:
    ways = {"no update": NO_UPDATE, "a frozen layer": FROZEN}
    code = broken(tmp_path, line, ways[breakage][line]) if breakage in ways else BENCHMARKS
    job = job_of(line, workload, code=code, **SINGLE)
    if breakage not in ways:
        job["workload"]["params"]["learning_rate"] = 0.0
    (rank,) = refused_ranks = run_gang(tmp_path, job, interpreter(line), code=code)
    found = refused(job, refused_ranks)
    tensors = len(rank["weights_moved"])
    still = 1 if breakage == "a frozen layer" else tensors
    assert found["weights_move"].count(" did not change") == min(still, 3)
    assert (" more " in found["weights_move"]) == (still > 3)
    assert f"(of {tensors} tensors)" in found["weights_move"]


COLLECTIVE_CELLS = [
    *(pytest.param(line, id=line, marks=SLOW) for line in NOT_EXCHANGED if line not in {
        "tensorflow2", "oneflow", "mindspore"
    }),
    *(pytest.param(line, id=line, marks=LARGE) for line in ("tensorflow2", "oneflow", "mindspore")),
]  # fmt: skip


@pytest.mark.parametrize("line", COLLECTIVE_CELLS)
def test_ranks_that_keep_their_gradients_are_refused(
    line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    code = broken(tmp_path, line, NOT_EXCHANGED[line])
    job = job_of(line, "bert_base", code=code, trainers=2, strategy="collective")
    job["protocol"]["min_seconds"] = 0.0
    found = refused(job, run_gang(tmp_path, job, interpreter(line), code=code))
    assert set(found) == {"weights_agree"}


@pytest.mark.parametrize("sent", [pytest.param(True, marks=LARGE), False])
@pytest.mark.parametrize("line", [
    pytest.param(line, id=line, marks=SLOW) for line in NOT_SENT
])  # fmt: skip
def test_a_trainer_whose_gradients_do_not_reach_the_servers_is_refused(
    line: str, sent: bool, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    code = BENCHMARKS if sent else broken(tmp_path, line, NOT_SENT[line])
    job = job_of(line, "ctr_dnn", code=code, **SERVERS, sync="async")
    job["protocol"] |= {"measured_steps": 40}
    ranks = run_gang(tmp_path, job, interpreter(line), code=code)
    assert [rank["gradients_arrive"] for rank in ranks] == [True, sent]
    found = refused(job, ranks)
    # Fluid's trainers fetch no weights where they send nothing.
    still = {"weights_move"} if line == "paddle1" else set()
    assert set(found) == (set() if sent else {"gradients_arrive"} | still)


COLLECTIVE = {"strategy": "collective", "trainers": 2}


@pytest.mark.parametrize(
    ("fault", "check", "axes"),
    [
        ("frozen", "weights_move", COLLECTIVE),
        ("leap", "weights_within_steps", COLLECTIVE),
        ("weights_differ", "weights_agree", COLLECTIVE),
        ("unsent", "gradients_arrive", {**SERVERS, "sync": "async"}),
    ],
)
def test_the_test_line_is_refused_as_well(
    fault: str, check: str, axes: dict[str, Any], tmp_path: Path
) -> None:
    job = job_of("fake", "sleep", **axes)
    job["workload"]["params"] |= {fault: True, "rank": 1, "parameters": 1000}
    folder = tmp_path / "1"
    folder.mkdir()
    assert set(refused(job, run_gang(folder, job, sys.executable))) == {check}
