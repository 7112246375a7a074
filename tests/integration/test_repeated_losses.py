"""A synchronous training repeats its losses to the last bit, its random numbers included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nightbench.testkit.gangs import job_of, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.timeout(900)]
SLOW, LARGE = pytest.mark.slow, pytest.mark.large


@pytest.mark.parametrize(("line", "workload"), [
    pytest.param("pytorch", "bert_base", marks=SLOW),
    pytest.param("jax", "bert_base", marks=SLOW),
    pytest.param("paddle2", "transformer_base", marks=LARGE),
    pytest.param("paddle3", "transformer_base", marks=LARGE),
    pytest.param("tensorflow2", "bert_base", marks=LARGE),
    pytest.param("tensorflow1", "bert_base", marks=LARGE),
    pytest.param("mxnet", "bert_base", marks=LARGE),
    pytest.param("oneflow", "bert_base", marks=LARGE),
])  # fmt: skip
def test_a_training_with_dropout_repeats_its_losses(
    line: str, workload: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    losses = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        job = job_of(line, workload, trainers=1, strategy="single")
        job["protocol"]["min_seconds"] = 0
        (rank,) = run_gang(tmp_path / name, job, interpreter(line))
        losses.append(rank["loss"])
    assert losses[0] == losses[1]
