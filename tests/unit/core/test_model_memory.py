"""What a device has to hold at least, and cases that cannot fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nightbench.config import load_catalog
from nightbench.config.suites import suite_and_cluster
from nightbench.core.capabilities import refusal_of
from nightbench.core.model import Case, Cluster, Node, Strategy
from nightbench.core.model_memory import device_bytes, kept_bytes

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
    held = device_bytes(llama("8b", 1, shard=shard, shard_stage=stage), LLAMA)
    assert held
    assert sum(held.values()) - held["activations"] == pytest.approx(
        bytes_per_parameter * 8030261248
    )


def test_paddlepaddle_keeps_whole_parameters_at_the_second_stage() -> None:
    split = {"shard": 8, "shard_stage": 2, "framework": "paddle3"}
    case = replace(llama("8b", 1, recompute="full"), **split)
    assert "weights 32.1 GB, gradients 4.02 GB, optimizer states 8.03 GB" in refusal(case, 40)


def test_matrices_and_layers_are_parts_of_what_shards_split() -> None:
    held = device_bytes(llama("8b", 4, tensor=4, pipeline=2), LLAMA)
    assert held
    assert sum(held.values()) - held["activations"] == 16 * 8030261248 / 8
    held = device_bytes(llama("8b", 4, tensor=4, pipeline=2, shard=4, shard_stage=3), LLAMA)
    assert held
    assert sum(held.values()) - held["activations"] == 16 * 8030261248 / 32


def test_ends_of_a_pipeline_hold_more_than_layers() -> None:
    end, axes = 128256 * 4096, {"pipeline": 4, "schedule": "1f1b"}
    layers = (8030261248 - 2 * end) / 4
    first = device_bytes(llama("8b", 4, **axes), LLAMA)
    assert first
    assert sum(first.values()) - first["activations"] == 16 * (layers + end)
    both = device_bytes(llama("8b", 4, **{**axes, "schedule": "zero_bubble"}), LLAMA)
    assert both
    assert sum(both.values()) - both["activations"] == 16 * (layers + 2 * end)
    shared = device_bytes(llama("8b", 4, **{**axes, "schedule": "gpipe"}), LLAMA, shares_ends=True)
    assert shared
    assert sum(shared.values()) - shared["activations"] == 16 * 8030261248 / 4


def test_states_in_bf16_take_half() -> None:
    wide, rounded = (
        device_bytes(llama("8b", 1, shard=8, shard_stage=1, state_precision=each), LLAMA)
        for each in ("fp32", "bf16")
    )
    assert wide
    assert rounded == {**wide, "optimizer states": 8030261248 * 4 / 8}


def test_devices_of_experts_hold_their_part_of_them_alone() -> None:
    case = replace(llama("full", 1, expert=8), workload="mixtral")
    held = device_bytes(case, CATALOG.workloads["mixtral"])
    assert held
    experts = 32 * 8 * 3 * 4096 * 14336
    parameters = 46702792704 - experts * 7 / 8
    assert sum(held.values()) - held["activations"] == pytest.approx(16 * parameters)
    split = device_bytes(replace(case, shard=8, shard_stage=3), CATALOG.workloads["mixtral"])
    assert split
    assert sum(split.values()) - split["activations"] == pytest.approx(16 * 46702792704 / 8)
    wide = replace(case, nodes=2, trainers=16, shard=16)
    for stage, gathered in ((3, 0), (2, 2)):  # In bf16, of what is split.
        further = device_bytes(replace(wide, shard_stage=stage), CATALOG.workloads["mixtral"])
        assert further
        assert sum(further.values()) - further["activations"] == pytest.approx(
            46702792704 + gathered * parameters
        )


def test_what_cannot_fit_is_refused_with_the_figure() -> None:
    case = llama("8b", 1)
    assert refusal(case, 80) == (
        f"{case.case_id} needs at least 204 GB on each device (weights 32.1 GB, gradients 32.1 GB, "
        "optimizer states 64.2 GB, activations 75.1 GB); cluster lab has 80 GB: expected more "
        "`shard`, `tensor` or `pipeline`, `recompute`, `state_precision: bf16`, a smaller batch "
        "or scale"
    )
    assert refusal(case, None) == ""
    assert refusal(llama("8b", 1, shard=8, shard_stage=3), 80) == ""
    compiled = replace(case, framework="jax", compiler="xla")
    assert (
        "needs at least 128 GB on each device (weights 32.1 GB, gradients 32.1 GB, optimizer "
        "states 64.2 GB, activations 31 GB; gradients appear as activations go)"
    ) in refusal(compiled, 128)
    assert refusal(compiled, 129) == ""
    in_parts = replace(compiled, micro_batches=2, batch_size_per_device=2)
    assert "needs at least 160 GB" in refusal(in_parts, 129)
    again: dict[str, Any] = {"recompute": "full"}
    assert "needs at least 156 GB" in refusal(llama("70b", 1, shard=8, shard_stage=3, **again), 80)
    assert refusal(llama("70b", 4, shard=32, shard_stage=3, **again), 80) == ""
    assert refusal(llama("full", 1), 42) == ""
    assert "needs at least 156 GB" in refusal(llama("70b", 1, tensor=8, **again), 80)
    stages = {"tensor": 8, "pipeline": 4, "schedule": "1f1b"}
    assert refusal(llama("70b", 4, **stages, **again), 80) == ""


def test_layers_keep_their_share_of_what_is_under_way() -> None:
    tokens, layers, kept = 8 * 8192, 32, 7 * 4096 + 2 * 1024 + 4 * 14336

    def found(**axes: Any) -> float:
        return kept_bytes(llama("8b", 4, batch_size_per_device=8, **axes), LLAMA)

    def expected(parts: float, values: int = kept, logits: float = 128256) -> float:
        return tokens * parts * (2 * layers * values + 4 * logits)

    assert found() == expected(1)
    assert found(precision="fp32") == tokens * (4 * layers * kept + 4 * 128256)
    assert found(shard=32, shard_stage=3, context=4) == expected(1)
    assert found(micro_batches=4) == expected(1 / 4)
    assert found(recompute="full") == expected(1, 4096)
    assert found(recompute="selective") == expected(1, kept - 2 * 4096 - 2 * 14336)
    assert found(compiler="inductor") == found(recompute="selective")
    # All parts are under way at once, and the logits of all pipelines' devices on the last ones.
    parts = {"pipeline": 4, "micro_batches": 8}
    assert found(**parts, schedule="gpipe") == expected(1, logits=4 * 128256)
    # Four of eight parts on the first stage; the last one has the logits of one.
    assert found(**parts, schedule="1f1b") == expected(4 / 8, logits=0)
    # Of two stages on each device 11 of 16 parts, or 8, among them the last one: as PyTorch orders.
    assert found(**parts, schedule="interleaved") == expected(11 / 16, logits=0)
    assert found(**parts, schedule="zero_bubble") == expected(8 / 16, logits=4 * 128256 / 4)
    few = {"pipeline": 4, "micro_batches": 2}
    assert found(**few, schedule="interleaved") == expected(1, logits=0)
    # What a stage computes while it waits is kept, too; every device has the logits of its samples.
    found_in_jax = kept_bytes(
        llama("8b", 4, batch_size_per_device=8, schedule="gpipe", **parts), LLAMA, shares_ends=True
    )
    assert found_in_jax == tokens * (2 * layers * kept * 11 / 8 + 4 * 128256)
    silent = LLAMA.model_copy(update={"cost": None})
    assert kept_bytes(llama("8b", 1), silent) == 0


def test_devices_that_split_matrices_keep_the_inputs_of_all() -> None:
    case, tokens = llama("8b", 1, tensor=8, shard=1), 8192
    whole = kept_bytes(case, LLAMA)
    assert whole - kept_bytes(replace(case, tensor=1), LLAMA) == tokens * 32 * 7 * 2 * 4096 * 2
    # What is computed again needs no input, and devices of a context have whole matrices.
    for axes in ({"recompute": "full"}, {"recompute": "selective"}, {"compiler": "inductor"}):
        again = replace(case, **axes)
        assert kept_bytes(again, LLAMA) == kept_bytes(replace(again, tensor=1), LLAMA)


def test_autocast_keeps_what_it_casts_of_whole_weights() -> None:
    case = llama("8b", 1, batch_size_per_device=2)

    def more(**axes: Any) -> float:
        other = replace(case, **axes)
        return kept_bytes(other, LLAMA, keeps_casts=True) - kept_bytes(other, LLAMA)

    matrices = 2 * (8030261248 - 2 * 128256 * 4096 - 65 * 4096)
    assert more() == 2 * 8192 * 32 * 5 * 4096 * 2 + matrices
    assert more(shard=8, shard_stage=1) == more()
    assert more(micro_batches=2) == 8192 * 32 * 5 * 4096 * 2 + matrices
    for stage in (2, 3):
        assert more(shard=8, shard_stage=stage) == 0
    stages = {"pipeline": 2, "schedule": "1f1b", "micro_batches": 2}
    for axes in ({"precision": "fp32"}, {"recompute": "full"}, {"tensor": 2}, stages):
        assert more(**axes) == 0, axes


def test_the_example_of_8b_plans_on_32_gpus_but_for_what_cannot_fit() -> None:
    gpus = {"device_kind": "gpu", "devices_per_node": 8, "compute_capability": "9.0"}
    cluster = Cluster("lab", NODES[:4], device_memory_bytes=80_000_000_000, **gpus)
    suite, _ = suite_and_cluster(EXAMPLE, CATALOG, cluster=cluster, untried=True)
    assert len(suite.cases) == 20
    assert len(suite.skipped) == 11
    assert all("GB on each device (weights" in why for why in suite.skipped.values())
    assert sum("-shard32-stage3-" in each.case_id for each in suite.cases) == 6


def test_a_process_on_a_cpu_may_take_no_more_than_the_case_says() -> None:
    axes = {"precision": "fp32", "memory_mb": 10_000}
    assert "cluster lab has 10 GB" in refusal(llama("full", 1, **axes), 64, "cpu")
    parts = {"shard": 8, "shard_stage": 3, "recompute": "full"}
    assert refusal(llama("full", 1, **parts, **axes), 64, "cpu") == ""
