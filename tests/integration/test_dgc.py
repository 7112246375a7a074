"""Deep gradient compression: ranks agree, bytes follow the sparsity, and the loss falls alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from nightbench.testkit.gangs import BENCHMARKS, job_of, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = 60
PARAMETERS = json.loads((BENCHMARKS / "workloads/bert_base/spec.json").read_text())["scales"][
    "smoke"
]["parameters"]


def two_ranks(
    python: str, folder: Path, unequal: bool = False, **axes: Any
) -> list[dict[str, Any]]:
    """What two ranks of a small BERT, trained with momentum, wrote in rank.json."""
    folder.mkdir()
    job = job_of("pytorch", "bert_base", trainers=2, strategy="collective", **axes)
    job["workload"]["params"] |= {"optimizer": "momentum", "momentum": 0.9, "learning_rate": 0.02}
    job["protocol"] = {"warmup_steps": 20, "measured_steps": STEPS, "min_seconds": 0.0}
    return run_gang(folder, job, python, seed_of=lambda rank: rank + 1 if unequal else 1)


@pytest.fixture
def python(interpreter: Callable[[str], str]) -> str:
    return interpreter("pytorch")


def test_ranks_agree_and_bytes_follow_the_sparsity(python: str, tmp_path: Path) -> None:
    sent = {}
    for sparsity in (99.0, 99.9):
        axes = {"compression": "dgc", "sparsity": sparsity}
        first, second = two_ranks(python, tmp_path / str(sparsity), unequal=True, **axes)
        assert first["loss"]["first"] != second["loss"]["first"], "both ranks had the same data"
        assert first["weights_digest"] == second["weights_digest"]
        sent[sparsity] = first["sent_bytes_per_step"]
    # A value and an index of four bytes each; of a small parameter one entry travels.
    assert sent[99.0] == pytest.approx(0.01 * PARAMETERS * 8, rel=0.05)
    assert sent[99.9] == pytest.approx(0.001 * PARAMETERS * 8, rel=0.25)


@pytest.mark.large
def test_the_loss_falls_as_that_of_the_dense_exchange(python: str, tmp_path: Path) -> None:
    dense, _ = two_ranks(python, tmp_path / "dense")
    sparse, _ = two_ranks(python, tmp_path / "sparse", compression="dgc", sparsity=99.0)
    # A hundredth of the entries, each with its index.
    assert sparse["sent_bytes_per_step"] < 0.025 * dense["sent_bytes_per_step"]
    ends = [mean(rank["loss"]["window"][-20:]) for rank in (dense, sparse)]
    fallen = [rank["loss"]["first"] - end for rank, end in zip((dense, sparse), ends, strict=True)]
    assert fallen[0] > 1.0
    assert fallen[1] == pytest.approx(fallen[0], rel=0.15)
