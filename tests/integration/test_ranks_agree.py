"""Two ranks with different data and different initial weights end with the same weights.

The same two ranks without an all-reduce must differ: otherwise equality would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightbench.testkit.gangs import job_of, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(1200)]

ONEFLOW = pytest.param("oneflow", marks=pytest.mark.large)
MINDSPORE = pytest.param("mindspore", marks=pytest.mark.large)
LINES = [
    *("pytorch", "paddle3", "paddle2", "tensorflow1"),
    # Two minutes, most of them XLA's; a language model is tried on two ranks instead.
    pytest.param("jax", marks=pytest.mark.large),
    pytest.param("tensorflow2", marks=pytest.mark.large),
    ONEFLOW,
    MINDSPORE,
]
TRANSPORTS = {
    "tensorflow1": "grpc/socket/lo",
    "tensorflow2": "grpc/socket/lo",
    "oneflow": "epoll",
}


def left(line: Any) -> Any:
    """To `make test-lines`."""
    return pytest.param(*getattr(line, "values", [line]), marks=pytest.mark.large)


def two_ranks(
    folder: Path, line: str, strategy: str, python: str, execution: str = "default"
) -> list[dict[str, Any]]:
    """What two ranks wrote in rank.json; their weights begin unequal."""
    job = job_of(line, "resnet50_v1.5", trainers=2, strategy=strategy, execution=execution)
    return run_gang(folder, job, python, seed_of=lambda rank: rank + 1)


@pytest.mark.parametrize("line", LINES)
def test_two_ranks_end_with_the_same_weights(
    line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    first, second = two_ranks(tmp_path, line, "collective", interpreter(line))
    assert first["loss"]["first"] != second["loss"]["first"], "both ranks had the same data"
    assert first["transport"] == second["transport"] == TRANSPORTS.get(line, "gloo/socket/lo")
    assert first["parameters"] == second["parameters"] == 25_557_032
    assert first["weights_digest"] == second["weights_digest"]


@pytest.mark.parametrize("line", ["jax", *map(left, ["pytorch", "paddle3"])])
def test_two_ranks_of_a_language_model_end_with_the_same_weights(
    line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """AdamW keeps moments of its own on each rank, and tokens are looked up in a tied table."""
    job = job_of(line, "bert_base", trainers=2, strategy="collective")
    first, second = run_gang(tmp_path, job, interpreter(line), seed_of=lambda rank: rank + 1)
    assert first["loss"]["first"] != second["loss"]["first"], "both ranks had the same data"
    assert first["weights_digest"] == second["weights_digest"]


@pytest.mark.parametrize(
    "line", ["paddle3", pytest.param("paddle2", marks=pytest.mark.large), ONEFLOW, MINDSPORE]
)
def test_ranks_of_a_graph_end_with_the_weights_of_eager_ones(
    line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    ended = []
    for execution in ("default", "graph"):
        folder = tmp_path / execution
        folder.mkdir()
        ended.append(two_ranks(folder, line, "collective", interpreter(line), execution))
    (eager, _), (first, second) = ended
    assert first["weights_digest"] == second["weights_digest"]
    steps = len(eager["loss"]["window"])
    assert first["loss"]["window"][:steps] == pytest.approx(eager["loss"]["window"], rel=1e-3)


@pytest.mark.parametrize("line", [LINES[0], *map(left, LINES[1:])])
def test_two_ranks_that_exchange_nothing_differ(
    line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    first, second = two_ranks(tmp_path, line, "single", interpreter(line))
    assert first["weights_digest"] != second["weights_digest"]


@pytest.mark.parametrize("line", [LINES[0], *map(left, LINES[1:])])
def test_a_lone_rank_is_no_group(
    line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """Told nothing of a group, it could not join one; efficiencies mean the same for every line."""
    job = job_of(line, "resnet50_v1.5", trainers=1, strategy="collective")
    (rank,) = run_gang(tmp_path, job, interpreter(line), can_meet=False)
    assert rank["transport"] is None
