"""Combinations of values that a line does not run: refused before anything is launched."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from nightbench.config import ConfigError, load_catalog, load_suite
from nightbench.core.capabilities import refusal_of
from nightbench.core.model import Case, Catalog, Cluster, Node, Strategy
from nightbench.core.model.catalog import Combination

Write = Callable[..., Path]
SHIPPED = load_catalog(Path(__file__).resolve().parents[3] / "benchmarks")
SERVERS = {"strategy": Strategy.PARAMETER_SERVER, "trainers": 2, "pservers": 1, "sync": "async"}
SINGLE = {"strategy": Strategy.SINGLE}
RANKS = {"strategy": Strategy.COLLECTIVE, "nodes": 2, "trainers": 2}
SHARDS = {**RANKS, "shard": 2, "shard_stage": 3}
XLA = {**SHARDS, "compiler": "xla"}
SPLIT = {**RANKS, "devices_per_node": 4, "trainers": 8, "scale": "smoke"}
TWELVE = {**SPLIT, "nodes": 3, "trainers": 12}
SIXTEEN = {**SPLIT, "nodes": 4, "trainers": 16}
STAGES = {"pipeline": 2, "schedule": "1f1b"}
GPIPE = {"pipeline": 2, "schedule": "gpipe", "compiler": "xla"}
DEEP = {**SPLIT, "scale": "8b", "pipeline": 2}
ROUNDED = {"state_precision": "bf16"}
ALONE = {"strategy": Strategy.COLLECTIVE, "trainers": 1}
TUNINGS = SHIPPED.frameworks["pytorch"].axes["tuning"]
REDUCED = [name for name in TUNINGS if name.startswith("ddp_")]
BUFFER = "ddp_buffer_100mb"
MERGED = "optimizer_multi_tensor"


def refusal(line: str, workload: str, **axes: object) -> str:
    case = Case(workload, line, **{"scale": "smoke", "batch_size_per_device": 2, **axes})
    found = refusal_of(case, SHIPPED)
    return found.message if found else ""


@pytest.mark.parametrize(
    ("line", "workload", "axes", "said"),
    [
        ("tensorflow2", "ctr_dnn", {**SERVERS, "compiler": "xla"}, "does not compile the steps"),
        ("tensorflow2", "ctr_dnn", {**SERVERS, "execution": "eager"}, "schedules steps as graphs"),
        ("tensorflow2", "ctr_dnn", {**SERVERS, "data": "clicks"}, "do not read real data"),
        ("pytorch", "bert_base", {**RANKS, "layout": "channels_last"}, "a layout of images"),
        ("pytorch", "llama", {**RANKS, "layout": "channels_last"}, "a layout of images"),
        ("paddle3", "bert_base", {**RANKS, "layout": "channels_last"}, "a layout of images"),
        (
            "jax",
            "vgg16",
            {**RANKS, "compiler": "xla", "layout": "channels_last"},
            "layout by default",
        ),
        ("paddle2", "ctr_dnn", {**SERVERS, "execution": "graph"}, "is already a graph"),
        ("paddle2", "word2vec", {**SINGLE, "execution": "graph"}, "gradients of sparse"),
        ("paddle3", "llama", {**SHARDS, "execution": "graph", "shard_stage": 1}, "whole replicas"),
        ("paddle2", "gpt2", RANKS, "no causal attention on CPUs"),
        ("paddle2", "llama", RANKS, "no grouped queries"),
        ("paddle2", "mixtral", RANKS, "no grouped queries"),
        ("oneflow", "gpt2", RANKS, "no attention with masks"),
        ("oneflow", "llama", RANKS, "no attention with masks"),
        ("pytorch", "mixtral", {**RANKS, "compiler": "inductor"}, "for fixed sizes"),
        ("pytorch", "mixtral", {**SPLIT, "tensor": 2}, "mixtral is never split by tensor: found 2"),
        ("pytorch", "llama", {**SPLIT, "expert": 2}, "llama is never split by expert: found 2"),
        ("pytorch", "mixtral", {**SPLIT, "expert": 3}, "found 3 with collective on 2x4; expected"),
        ("pytorch", "mixtral", {**SIXTEEN, "expert": 16}, "a divisor of experts, which are 8 "),
        ("pytorch", "mixtral", {**SHARDS, "expert": 2, "shard_stage": 1}, "has experts of its own"),
        (
            *("pytorch", "mixtral", {**TWELVE, "expert": 4, "shard": 6, "shard_stage": 3}),
            "found 6 with expert 4; expected a multiple of it, or less",
        ),
        (
            *("pytorch", "mixtral", {**TWELVE, "expert": 2, "shard": 6, "shard_stage": 3}),
            "found 6 with expert 2; expected 2 times a divisor of hidden 64 and inner 88",
        ),
        ("jax", "mixtral", {**XLA, "shard_stage": 2, "expert": 2}, "outside of experts"),
        ("pytorch", "resnet50_v1.5", {**ALONE, "compression": "dgc"}, "one rank exchanges nothing"),
        ("pytorch", "resnet50_v1.5", {**RANKS, "compression": "dgc", "precision": "fp16"}, "fp16"),
        ("pytorch", "transformer_base", {**RANKS, "compression": "dgc"}, "the momentum of SGD"),
        (
            "pytorch",
            "word2vec",
            {**ALONE, "strategy": Strategy.SINGLE, "compiler": "inductor"},
            "as dense gradients",
        ),
        ("pytorch", "llama", {**SHARDS, "compiler": "inductor"}, "gathered one by one"),
        ("pytorch", "llama", {**SHARDS, "precision": "fp16"}, "these ranks have only parts"),
        ("jax", "llama", {**XLA, "shard_stage": 1}, "splits parameters together with their states"),
        ("jax", "llama", {**XLA, "precision": "fp16"}, "these ranks have only parts"),
        ("pytorch", "llama", {**SPLIT, "tensor": 3}, "found 3 with collective on 2x4; expected"),
        (
            *("pytorch", "llama", {**SPLIT, "tensor": 2, "pipeline": 2, "shard": 4}),
            "found 16, the product of shard 4 and tensor 2 and pipeline 2 with collective on 2x4; "
            "expected collective, and a divisor of the devices, of which there are 8",
        ),
        (
            "pytorch",
            "llama",
            {**SPLIT, "tensor": 4},
            "expected a divisor of key_value_heads, which",
        ),
        (
            *("pytorch", "llama", {**SPLIT, "context": 4, "tensor": 4}),
            "found 16, the product of context 4 and tensor 4 with collective on 2x4; expected",
        ),
        (
            *("pytorch", "llama", {**SPLIT, "context": 8, "sequence_length": 8200, "scale": "8b"}),
            "a number whose double, times `tensor`, divides 8200 tokens",
        ),
        (
            "pytorch",
            "gpt2",
            {**SPLIT, "context": 2},
            "gpt2 is never split by context: found 2; expected",
        ),
        ("jax", "llama", {**SPLIT, "context": 2, "compiler": "xla"}, "whole sequences"),
        ("pytorch", "llama", {**SPLIT, "context": 2, "shard": 2, "shard_stage": 1}, "pieces"),
        (
            "pytorch",
            "llama",
            {**SPLIT, **STAGES, "pipeline": 4},
            "a divisor of layers, which are 2",
        ),
        ("pytorch", "llama", {**SPLIT, **STAGES, "scale": "full"}, "share the table of embeddings"),
        (
            "pytorch",
            "gpt2",
            {**SPLIT, "tensor": 2},
            "gpt2 is never split by tensor: found 2; expected",
        ),
        (
            "pytorch",
            "bert_base",
            {**ALONE, "recompute": "full"},
            "names no layers: found full; expected n",
        ),
        ("pytorch", "llama", {**ALONE, "micro_batches": 3}, "a divisor of the 2 samples of a step"),
        ("pytorch", "llama", {**SPLIT, "tensor": 2, "micro_batches": 3}, "step, of 2 devices toge"),
        (
            *("pytorch", "llama", {**SPLIT, **STAGES, "schedule": "zero_bubble"}),
            "found 2; expected a number whose double (stages of zero_bubble) is a divisor of "
            "layers",
        ),
        (
            *("pytorch", "llama", {**DEEP, "schedule": "zero_bubble", "recompute": "selective"}),
            "selective checkpoints support one backward",
        ),
        (
            *("pytorch", "llama", {**DEEP, "schedule": "interleaved", "micro_batches": 5}),
            "found 5 with interleaved; expected rounds of equal size, for example a multiple of",
        ),
        ("pytorch", "llama", {**SPLIT, "tensor": 2, "shard": 2, "shard_stage": 1}, "whole states"),
        ("jax", "llama", {**SPLIT, **STAGES, "compiler": "xla"}, "request `schedule: gpipe`"),
        (
            "paddle3",
            "llama",
            {**SPLIT, "pipeline": 2, "schedule": "1f1b"},
            "which ProcessGroupGLOO does not have",
        ),
        ("paddle3", "llama", {**SPLIT, "context": 2}, "waits for the receiver over gloo"),
        ("paddle3", "mixtral", {**SPLIT, "expert": 2}, "global_scatter has no kernel for CPUs"),
        ("paddle3", "llama", {**RANKS, "recompute": "selective"}, "the function computed"),
        (
            *("paddle3", "llama", {**SHARDS, "shard_stage": 1, "tensor": 2}),
            "fleet gives each device the whole states",
        ),
        (
            *("pytorch", "bert_base", {**RANKS, **ROUNDED}),
            "8 bits cannot store a mean of squares times 0.999: found bf16 with bert_base",
        ),
        (
            *("pytorch", "resnet50_v1.5", {**RANKS, **ROUNDED}),
            "found bf16 with resnet50_v1.5, whose optimizer is momentum; expected a workload that "
            "Adam",
        ),
        ("paddle3", "llama", {**RANKS, **ROUNDED}, "if the parameters are in float"),
        ("tensorflow2", "bert_base", {**RANKS, **ROUNDED}, "does not support state_precision bf16"),
        *(
            (line, "resnet50_v1.5", {**ALONE, "tuning": name}, "a single process does not use")
            for line, name in [*(("pytorch", x) for x in REDUCED), ("paddle2", BUFFER)]
        ),
        (
            *("pytorch", "gpt2", {**SHARDS, "tuning": "ddp_fp16"}),
            "does not run shard_stage 3 with tuning ddp_fp16: the tuning is a",
        ),
        ("paddle2", "vgg16_cifar", {**SERVERS, "tuning": BUFFER}, "with servers do not use"),
        ("paddle2", "vgg16_cifar", {**SERVERS, "tuning": MERGED}, "the servers update the weights"),
        ("paddle3", "gpt2", {**ALONE, "tuning": MERGED}, "for Momentum and Adam"),
        ("paddle2", "vgg16", {**ALONE, "tuning": "amp_o2"}, "a level of mixed precision"),
        (
            "pytorch",
            "gpt2",
            {**ALONE, "tuning": "compile_max_autotune"},
            "also request `compiler: inductor`",
        ),
        *(
            ("pytorch", workload, {**ALONE, "data": data, "tuning": "dali"}, "images from files")
            for workload, data in (("resnet50_v1.5", "synthetic"), ("gpt2", "words"))
        ),
        ("jax", "gpt2", {**XLA, "tuning": "ddp_fp16"}, "jax does not support tuning ddp_fp16"),
        ("pytorch", "bert_base", SHARDS, "bert_base is never split: found 2; expected 1"),
        ("pytorch", "llama", {**SHARDS, "batch_size_per_device": "max"}, "cannot hold a split"),
        (
            *("pytorch", "llama", {**SHARDS, "shard": 3, "devices_per_node": 2}),
            "found 3 with collective on 2x2; expected collective, and a divisor of the devices, of "
            "which there are 4",
        ),
        ("pytorch", "llama", {**SHARDS, "strategy": Strategy.SINGLE, "nodes": 1}, "with single"),
    ],
)
def test_what_trainers_cannot_run_together_is_refused(
    line: str, workload: str, axes: dict[str, object], said: str
) -> None:
    assert said in refusal(line, workload, **axes)


@pytest.mark.parametrize(
    ("line", "workload", "axes"),
    [
        ("tensorflow2", "ctr_dnn", SERVERS),
        ("tensorflow2", "resnet50_v1.5", {**RANKS, "compiler": "xla"}),
        ("tensorflow2", "resnet50_v1.5", {**RANKS, "execution": "eager"}),
        ("tensorflow2", "resnet50_v1.5", {**RANKS, "data": "images"}),
        ("tensorflow1", "ctr_dnn", {**SERVERS, "data": "clicks"}),
        ("pytorch", "resnet50_v1.5", {**RANKS, "layout": "channels_last"}),
        ("pytorch", "resnet50_v1.5", {**RANKS, "compression": "dgc"}),
        *(("pytorch", "llama", {**SHARDS, "shard_stage": stage}) for stage in (1, 2, 3)),
        ("pytorch", "gpt2", {**SHARDS, "devices_per_node": 2}),
        ("pytorch", "llama", {**SPLIT, "tensor": 2, "shard": 4, "shard_stage": 3}),
        ("pytorch", "llama", {**SPLIT, "context": 8, "shard": 8, "shard_stage": 3}),
        ("jax", "llama", {**SPLIT, "tensor": 2, "compiler": "xla"}),
        ("pytorch", "mixtral", {**SPLIT, "expert": 8}),
        ("pytorch", "mixtral", {**SPLIT, "expert": 2, "shard": 4, "shard_stage": 3}),
        ("jax", "mixtral", {**SPLIT, "expert": 8, "compiler": "xla"}),
        ("pytorch", "llama", {**SPLIT, **STAGES, "tensor": 2, "micro_batches": 4}),
        ("jax", "llama", {**SPLIT, **GPIPE, "micro_batches": 4}),
        *(
            ("jax", "llama", {**SPLIT, **GPIPE, "shard": 2, "shard_stage": stage})
            for stage in (2, 3)
        ),
        ("jax", "gpt2", {**ALONE, "compiler": "xla", "micro_batches": 2}),
        ("pytorch", "llama", {**DEEP, "schedule": "interleaved", "micro_batches": 4}),
        ("pytorch", "llama", {**DEEP, "schedule": "zero_bubble", "batch_size_per_device": 5}),
        ("pytorch", "gpt2", {**ALONE, "recompute": "selective"}),
        ("pytorch", "transformer_base", {**RANKS, **ROUNDED}),
        ("jax", "llama", {**XLA, "shard_stage": 2, **ROUNDED}),
        *(("pytorch", "resnet50_v1.5", {**RANKS, "tuning": name}) for name in REDUCED),
        ("paddle2", "resnet50_v1.5", {**RANKS, "tuning": BUFFER}),
        ("paddle3", "vgg16_cifar", {**ALONE, "tuning": MERGED}),
        ("pytorch", "gpt2", {**ALONE, "tuning": "sdpa_math"}),
        ("pytorch", "resnet50_v1.5", {**ALONE, "data": "images", "tuning": "dali"}),
        *(("jax", "gpt2", {**XLA, "shard_stage": stage}) for stage in (2, 3)),
    ],
)
def test_each_of_the_values_runs_elsewhere(
    line: str, workload: str, axes: dict[str, object]
) -> None:
    assert refusal(line, workload, **axes) == ""


def test_weights_are_gathered_again_on_cpus_by_the_parts_of_a_pipeline_alone() -> None:
    nodes = tuple(Node(name, name, "ssh") for name in ("n1", "n2"))
    cluster = Cluster("c", nodes, device_kind="cpu", devices_per_node=4)
    axes = {**SPLIT, "compiler": "xla", "shard": 2, "shard_stage": 3, "batch_size_per_device": 2}
    case = Case("llama", "jax", **axes)
    said = "jax does not run pipeline 1 with device cpu with shard_stage 3: on CPUs, XLA"
    assert said in str(refusal_of(case, SHIPPED, cluster))
    in_parts = dataclasses.replace(case, pipeline=2, schedule="gpipe")
    assert refusal_of(in_parts, SHIPPED, cluster) is None


def with_combination(catalog: Catalog) -> Catalog:
    combination = Combination(
        when={"trainers": ("2", "4"), "precision": ("fp32",)}, refused="no room"
    )
    line = catalog.frameworks["pytorch"].model_copy(update={"refused_combinations": (combination,)})
    return dataclasses.replace(catalog, frameworks={**catalog.frameworks, "pytorch": line})


def test_a_suite_that_asks_for_one_is_refused_or_skips_it(
    suite_file: Write, catalog: Catalog
) -> None:
    sentence = "pytorch does not run trainers 2 with precision fp32: no room"
    catalog = with_combination(catalog)
    with pytest.raises(ConfigError, match=rf"trial.yaml:\d+: matrix\[0\].*: {sentence}"):
        load_suite(suite_file(), catalog)
    skip = ("strategy: collective", "strategy: collective\n    unsupported: skip")
    suite = load_suite(suite_file(skip), catalog)
    assert suite.skipped == {"net-pytorch-collective-2x1-bs2": sentence}
    assert "net-pytorch-collective-2x1-bs2" not in {case.case_id for case in suite.cases}
    assert len(suite.cases) == 3
