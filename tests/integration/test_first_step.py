"""A cell of one line does the same work as the cell of another.

From the same weights and on the same batch their first losses and the norms of all gradients agree.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.framework_gangs import BENCHMARKS, build_environment

pytestmark = [pytest.mark.framework, pytest.mark.timeout(1200)]

FirstStep = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def first_step(tmp_path_factory: pytest.TempPathFactory) -> FirstStep:
    """The document that first_step.py prints in the environment of a line."""
    root = tmp_path_factory.getbasetemp() / "node"

    @functools.cache
    def call(line: str, workload: str, *words: str) -> dict[str, Any]:
        argv = [build_environment(root, line), str(BENCHMARKS / "first_step.py"), line, workload]
        done = subprocess.run([*argv, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    return call


def hold_equal(one: dict[str, Any], other: dict[str, Any], layers: float = 1e-3) -> None:
    assert one["parameters"] == other["parameters"]
    assert one["loss"] == pytest.approx(other["loss"], abs=1e-4)
    assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)
    # The norm as a whole is that of its few largest layers: each of them has to agree.
    norms = one["gradient_norms"]
    assert min(norms.values()) > 0, "a layer that has no gradient is not compared"
    assert norms == pytest.approx(other["gradient_norms"], rel=layers)


@pytest.mark.parametrize(
    ("line", "execution"),
    [
        pytest.param("paddle3", "default", marks=pytest.mark.slow),
        ("paddle2", "default"),
        pytest.param("paddle1", "default", marks=pytest.mark.slow),
        pytest.param("jax", "default", marks=pytest.mark.slow),
        pytest.param("tensorflow1", "default", marks=pytest.mark.slow),
        pytest.param("tensorflow2", "default", marks=pytest.mark.large),
        pytest.param("tensorflow2", "eager", marks=pytest.mark.large),
        pytest.param("mxnet", "default", marks=pytest.mark.slow),
        pytest.param("mxnet", "graph", marks=pytest.mark.slow),
        pytest.param("oneflow", "default", marks=pytest.mark.large),
        pytest.param("oneflow", "graph", marks=pytest.mark.large),
        pytest.param("mindspore", "default", marks=pytest.mark.large),
        pytest.param("mindspore", "graph", marks=pytest.mark.large),
        pytest.param("megengine", "default", marks=pytest.mark.large),
        pytest.param("megengine", "graph", marks=pytest.mark.large),
    ],
)
def test_resnet50_is_the_same_network(line: str, execution: str, first_step: FirstStep) -> None:
    found = first_step(line, "resnet50_v1.5", "--execution", execution)
    hold_equal(first_step("pytorch", "resnet50_v1.5"), found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "workload", "other"),
    [
        ("paddle3", "resnet50_v1.5", "pytorch"),
        pytest.param("jax", "bert_base", "pytorch", marks=pytest.mark.large),
        pytest.param("tensorflow1", "word2vec", "pytorch", marks=pytest.mark.large),
        ("paddle1", "ctr_dnn", "paddle2"),
    ],
)
def test_real_data_are_the_same_for_every_line(
    line: str, workload: str, other: str, first_step: FirstStep
) -> None:
    words = (workload, "--data", "sample")
    hold_equal(first_step(line, *words), first_step(other, *words))
    assert first_step(line, *words)["loss"] != first_step(line, workload)["loss"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "axis", "value"),
    [
        ("bert_base", "compiler", "inductor"),
        ("resnet50_v1.5", "layout", "channels_last"),
    ],
)
def test_compiler_and_layout_leave_the_work_as_it_is(
    workload: str, axis: str, value: str, first_step: FirstStep
) -> None:
    found = first_step("pytorch", workload, f"--{axis}", value)
    hold_equal(first_step("pytorch", workload), found)


VGG16 = pytest.param("vgg16", 4, marks=pytest.mark.large)
"""138 million weights: minutes for each line."""


@pytest.mark.slow
@pytest.mark.parametrize("line", ["paddle3", "paddle2", "paddle1"])
@pytest.mark.parametrize(
    ("workload", "batch_size"),
    [
        VGG16,
        ("vgg16_cifar", 32),
        # Its batch norms see 1x1 of 32x32: over eight images rounding would pass the tolerance.
        ("se_resnext50_32x4d", 32),
        ("word2vec", 32),
        ("simnet_bow", 32),
    ],
)
def test_networks_are_the_same(
    workload: str, batch_size: int, line: str, first_step: FirstStep
) -> None:
    words = ("--batch-size", str(batch_size))
    hold_equal(first_step("pytorch", workload, *words), first_step(line, workload, *words))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "workload", "execution"),
    [
        ("paddle3", "bert_base", "default"),
        pytest.param("paddle3", "bert_large", "default", marks=pytest.mark.large),
        ("paddle3", "transformer_base", "default"),
        pytest.param("paddle3", "transformer_big", "default", marks=pytest.mark.large),
        ("paddle2", "bert_base", "default"),
        ("paddle2", "transformer_base", "default"),
        ("paddle1", "transformer_base", "default"),
        pytest.param("paddle1", "transformer_big", "default", marks=pytest.mark.large),
        ("mxnet", "bert_base", "default"),
        ("mxnet", "bert_base", "graph"),
        pytest.param("mxnet", "bert_large", "default", marks=pytest.mark.large),
        pytest.param("mindspore", "bert_base", "default", marks=pytest.mark.large),
        pytest.param("mindspore", "bert_base", "graph", marks=pytest.mark.large),
        pytest.param("mindspore", "bert_large", "graph", marks=pytest.mark.large),
    ],
)
def test_language_models_are_the_same(
    line: str, workload: str, execution: str, first_step: FirstStep
) -> None:
    found = first_step(line, workload, "--execution", execution)
    hold_equal(first_step("pytorch", workload), found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["jax", "tensorflow1", pytest.param("tensorflow2", marks=pytest.mark.large)]
)
@pytest.mark.parametrize(
    "workload",
    [
        "bert_base",
        *(pytest.param(each, marks=pytest.mark.large) for each in ("vgg16", "bert_large")),
    ],
)
def test_networks_with_channels_last_are_the_same(
    workload: str, line: str, first_step: FirstStep
) -> None:
    words = ("--batch-size", "4")
    hold_equal(first_step("pytorch", workload, *words), first_step(line, workload, *words))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "layers"),
    # Thirteen batch norms and ReLUs amplify rounding: PyTorch without oneDNN is 3e-3 off PyTorch.
    [("vgg16_cifar", 1e-2), ("word2vec", 1e-3), ("simnet_bow", 1e-3)],
)
def test_networks_of_parameter_servers_are_the_same(
    workload: str, layers: float, first_step: FirstStep
) -> None:
    words = (workload, "--batch-size", "32")
    hold_equal(first_step("pytorch", *words), first_step("tensorflow1", *words), layers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "workload"),
    [
        ("paddle3", "resnet50_v1.5"),
        ("paddle3", "bert_base"),
        ("paddle3", "transformer_base"),
        ("paddle2", "bert_base"),
        ("paddle1", "transformer_base"),
        ("jax", "bert_base"),
        ("mxnet", "bert_base"),
        ("tensorflow1", "bert_base"),
        pytest.param("tensorflow2", "bert_base", marks=pytest.mark.large),
        pytest.param("mindspore", "bert_base", marks=pytest.mark.large),
    ],
)
def test_optimisers_do_the_same(line: str, workload: str, first_step: FirstStep) -> None:
    words = ("--steps", "3")
    losses = first_step("pytorch", workload, *words)["losses"]
    assert losses[0] != losses[1] != losses[2]
    assert first_step(line, workload, *words)["losses"] == pytest.approx(losses, rel=1e-4)


@pytest.mark.large
@pytest.mark.parametrize("workload", ["vgg16", "bert_base", "bert_large"])
def test_oneflow_trains_networks_of_pytorch(workload: str, first_step: FirstStep) -> None:
    hold_equal(first_step("pytorch", workload), first_step("oneflow", workload))
    losses = first_step("pytorch", workload, "--steps", "3")["losses"]
    assert first_step("oneflow", workload, "--steps", "3")["losses"] == pytest.approx(
        losses, rel=1e-4
    )


@pytest.mark.parametrize(
    ("line", "execution"),
    [
        ("paddle1", "default"),
        ("paddle2", "graph"),
        ("paddle3", "default"),
        pytest.param("mxnet", "default", marks=pytest.mark.slow),
        pytest.param("tensorflow1", "default", marks=pytest.mark.slow),
        pytest.param("tensorflow2", "default", marks=pytest.mark.large),
    ],
)
def test_ctr_dnn_is_the_same_network(line: str, execution: str, first_step: FirstStep) -> None:
    words = ("--batch-size", "64")
    expected = first_step("paddle2", "ctr_dnn", *words)
    hold_equal(expected, first_step(line, "ctr_dnn", *words, "--execution", execution))
