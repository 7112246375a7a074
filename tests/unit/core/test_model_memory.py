"""What a device has to hold at least, and cases that cannot fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nightbench.config import load_catalog, load_suite
from nightbench.core.capabilities import refusal_of
from nightbench.core.model import Case, Cluster, Node, Strategy
from nightbench.core.model_memory import held_bytes

REPO = Path(__file__).resolve().parents[3]
CATALOG = load_catalog(REPO / "benchmarks")
EXAMPLE = REPO / "docs/examples/llama-8b.yaml"
LLAMA = CATALOG.workloads["llama"]
NODES = tuple(Node(f"n{number}", f"n{number}", "ssh") for number in range(32))


def llama(scale: str, nodes: int, **axes: Any) -> Case:
    size = {"nodes": nodes, "devices_per_node": 8, "trainers": 8 * nodes, "scale": scale}
    return Case("llama", "pytorch", Strategy.COLLECTIVE, **{"precision": "bf16", **size, **axes})


def refusal(case: Case, memory: float | None, kind: str = "gpu") -> str:
    size = None if memory is None else round(memory * 1e9)
    cluster = Cluster("lab", NODES, device_kind=kind, devices_per_node=8, device_memory_bytes=size)
    found = refusal_of(case, CATALOG, cluster, untried=True)
    return found.message if found else ""


@pytest.mark.parametrize(
    ("shard", "stage", "bytes_per_parameter"),
    [(1, None, 16), (8, 1, 4 + 4 + 1), (8, 2, 0.5 + 2 + 0.5 + 1), (8, 3, 2)],
)
def test_each_stage_splits_more(shard: int, stage: int | None, bytes_per_parameter: float) -> None:
    held = held_bytes(llama("8b", 1, shard=shard, shard_stage=stage), LLAMA)
    assert held
    assert sum(held.values()) == pytest.approx(bytes_per_parameter * 8030261248)


def test_matrices_and_layers_are_parts_of_what_shards_split() -> None:
    held = held_bytes(llama("8b", 4, tensor=4, pipeline=2), LLAMA)
    assert held
    assert sum(held.values()) == 16 * 8030261248 / 8
    held = held_bytes(llama("8b", 4, tensor=4, pipeline=2, shard=4, shard_stage=3), LLAMA)
    assert held
    assert sum(held.values()) == 16 * 8030261248 / 32


def test_what_cannot_fit_is_refused_with_the_figure() -> None:
    case = llama("8b", 1)
    assert refusal(case, 80) == (
        f"{case.case_id} needs at least 128 GB on each device (weights 32.1 GB, gradients 32.1 GB, "
        "optimiser states 64.2 GB); cluster lab has 80 GB: expected more `shard`, `tensor` or "
        "`pipeline`, or a smaller scale"
    )
    assert refusal(case, None) == ""
    assert refusal(llama("8b", 1, shard=8, shard_stage=3), 80) == ""
    assert "needs at least 141 GB" in refusal(llama("70b", 1, shard=8, shard_stage=3), 80)
    assert refusal(llama("70b", 4, shard=32, shard_stage=3), 80) == ""
    assert refusal(llama("full", 1), 24) == ""
    assert "needs at least 141 GB" in refusal(llama("70b", 1, tensor=8), 80)
    assert refusal(llama("70b", 4, tensor=8, pipeline=4, schedule="1f1b"), 80) == ""


def test_the_example_of_8b_plans_on_32_gpus_but_for_what_cannot_fit() -> None:
    gpus = {"device_kind": "gpu", "devices_per_node": 8, "compute_capability": "9.0"}
    cluster = Cluster("lab", NODES[:4], device_memory_bytes=80_000_000_000, **gpus)
    suite = load_suite(EXAMPLE, CATALOG, cluster=cluster, untried=True)
    assert len(suite.cases) == 25
    replicated = [each for each in suite.skipped.values() if "at least 128 GB" in each]
    assert len(replicated) == len(suite.skipped) == 2


def test_a_process_on_a_cpu_may_take_no_more_than_the_case_says() -> None:
    axes = {"precision": "fp32", "memory_mb": 10_000}
    assert "cluster lab has 10 GB" in refusal(llama("full", 1, **axes), 64, "cpu")
    assert refusal(llama("full", 1, shard=8, shard_stage=3, **axes), 64, "cpu") == ""
