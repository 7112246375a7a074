"""A cell of one line does the same work as the cell of another.

From the same weights and on the same batch their first losses and the norms of all gradients agree.
The cells are those that the kit finds.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contained import SERVERS
from tests.integration.broken_lines import HALF_A_BATCH, broken
from tests.shipped import shipped

from nightbench.testkit.cell_tests import (
    CATALOG,
    test_every_sample_is_trained_on,
    test_gradients_are_those_of_the_loss,
    test_lines_do_the_same_work,
    test_two_ranks_pass_every_check,
)
from nightbench.testkit.cells import (
    TOLERANCES,
    FirstStep,
    TrainedCell,
    cells,
    differences,
    gradients_of_no_loss,
    run_first_step,
    unused_halves,
)
from nightbench.testkit.gangs import BENCHMARKS

__all__ = [
    "test_every_sample_is_trained_on",
    "test_gradients_are_those_of_the_loss",
    "test_lines_do_the_same_work",
    "test_two_ranks_pass_every_check",
]

pytestmark = [pytest.mark.framework, pytest.mark.timeout(1200)]

LARGE = pytest.mark.large
REFERENCE = "pytorch"
LARGE_BYTES = 1_000_000_000
HEAVY = {"bert_large", "se_resnext50_32x4d", "transformer_big", "vgg16", "vgg16_cifar"}
"""Minutes for each line."""
CONVOLVING = {"resnet50_v1.5-jax", "resnet50_v1.5-paddle2", "resnet50_v1.5-mxnet"}
"""The cells of ResNet-50 that are not left to `make test-lines`."""
FAST = {"word2vec-paddle2"}
"""What `make test` runs; the others are slow."""
HELD = {"bert_base-jax", "llama-jax", "mixtral-jax"}
"""Whose first losses `test_optimizers_do_the_same` holds as well."""
ALONE = {
    test_every_sample_is_trained_on: "word2vec-pytorch",
    test_gradients_are_those_of_the_loss: "word2vec-pytorch",
    test_two_ranks_pass_every_check: "resnet50_v1.5-pytorch",
}
"""Tests of the kit that need no other line -> the cell that they are tried on."""


@pytest.fixture(scope="session")
def first_step(
    interpreter: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> FirstStep:
    """What first_step.py prints; one for all workers, of which the first computes it.

    Most cells have the same reference, and their tests are handed out one by one.
    """
    place = Path(os.environ.get(SERVERS) or tmp_path_factory.getbasetemp()) / "first-steps"
    place.mkdir(exist_ok=True)

    def call(line: str, workload: str, *words: str) -> dict[str, Any]:
        name = hashlib.sha256(json.dumps([line, workload, *words]).encode()).hexdigest()
        path = place / f"{name}.json"
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                found = run_first_step(interpreter(line), line, workload, words)
                path.write_text(json.dumps(found))
        kept: dict[str, Any] = json.loads(path.read_text())
        return kept

    return call


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cell" not in metafunc.fixturenames:
        return
    found = cells(CATALOG, REFERENCE)
    if chosen := ALONE.get(metafunc.function):
        params = [
            pytest.param(cell, id=str(cell), marks=pytest.mark.slow)
            for cell in found
            if str(cell) == chosen
        ]
    else:
        params = [held(cell) for cell in found if cell.reference]
    metafunc.parametrize("cell", params, ids=str)


def held(cell: TrainedCell) -> Any:
    line = CATALOG.frameworks[cell.line]
    large = line.size_bytes > LARGE_BYTES or cell.workload in HEAVY or str(cell) in HELD
    large |= cell.workload == "resnet50_v1.5" and str(cell) not in CONVOLVING
    large |= cell.execution == "graph" and cell.workload not in ("ctr_dnn", "simnet_bow")
    marks = () if str(cell) in FAST else (LARGE if large else pytest.mark.slow)
    return pytest.param(cell, id=str(cell), marks=marks)


def hold_equal(workload: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    tolerance = TOLERANCES.get(workload, TrainedCell.tolerance)
    assert "\n".join(differences(one, other, tolerance)) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "workload", "other"),
    [
        pytest.param("paddle3", "resnet50_v1.5", "pytorch", marks=LARGE),
        pytest.param("jax", "bert_base", "pytorch", marks=LARGE),
        pytest.param("tensorflow1", "word2vec", "pytorch", marks=LARGE),
        ("paddle1", "ctr_dnn", "paddle2"),
    ],
)
def test_real_data_are_the_same_for_every_line(
    line: str, workload: str, other: str, first_step: FirstStep
) -> None:
    words = (workload, "--data", "sample")
    hold_equal(workload, first_step(line, *words), first_step(other, *words))
    assert first_step(line, *words)["loss"] != first_step(line, workload)["loss"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "workload", "axis", "value"),
    [
        pytest.param("pytorch", "bert_base", "compiler", "inductor", marks=LARGE),
        ("pytorch", "resnet50_v1.5", "layout", "channels_last"),
        pytest.param("paddle3", "se_resnext50_32x4d", "layout", "channels_last", marks=LARGE),
        pytest.param("paddle2", "vgg16", "layout", "channels_last", marks=LARGE),
    ],
)
def test_compiler_and_layout_leave_the_work_as_it_is(
    line: str, workload: str, axis: str, value: str, first_step: FirstStep
) -> None:
    found = first_step(line, workload, f"--{axis}", value)
    hold_equal(workload, first_step(line, workload), found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "workload"),
    [
        ("paddle3", "transformer_base"),
        ("paddle2", "bert_base"),
        ("paddle1", "transformer_base"),
        ("jax", "bert_base"),
        ("jax", "llama"),
        ("jax", "mixtral"),
        ("mxnet", "bert_base"),
        *(
            pytest.param(line, workload, marks=LARGE)
            for line, workload in (
                # Their AdamW has stepped for another, and their first step is held elsewhere.
                ("paddle3", "bert_base"),
                ("paddle3", "resnet50_v1.5"),
                ("paddle3", "gpt2"),
                ("paddle3", "llama"),
                ("jax", "gpt2"),
                ("tensorflow1", "bert_base"),
                ("tensorflow2", "bert_base"),
                ("mindspore", "bert_base"),
                ("oneflow", "vgg16"),
                ("oneflow", "bert_base"),
                ("oneflow", "bert_large"),
            )
        ),
    ],
)
def test_optimizers_do_the_same(line: str, workload: str, first_step: FirstStep) -> None:
    words = ("--steps", "3")
    losses = first_step("pytorch", workload, *words)["losses"]
    assert losses[0] != losses[1] != losses[2]
    if (stated := CATALOG.workloads[workload].losses) is not None:
        reference = [stated.first[0], stated.third["1"][0]]
        batch = ("--batch-size", str(stated.batch_size_per_device), "--as-initialised")
        measured = first_step("pytorch", workload, *words, *batch)["losses"]
        assert measured[::2] == pytest.approx(reference, rel=1e-4)
        for ranks, both in stated.together.items():
            samples = int(ranks) * stated.batch_size_per_device
            wide = ("--batch-size", str(samples), "--as-initialised")
            measured = first_step("pytorch", workload, *words, *wide)["losses"]
            assert measured[::2] == pytest.approx(both, rel=1e-4)
    assert first_step(line, workload, *words)["losses"] == pytest.approx(losses, rel=1e-4)


@pytest.mark.slow
def test_states_in_bf16_are_rounded_alike(first_step: FirstStep) -> None:
    """Nine steps show the rounding; twice as many also show last bits that round differently."""
    words = ("llama", "--steps", "9")
    wide = first_step("pytorch", *words)["losses"]
    rounded, other = (
        first_step(line, *words, "--state-precision", "bf16")["losses"]
        for line in ("pytorch", "jax")
    )
    assert other == pytest.approx(rounded, rel=5e-7)
    assert rounded == pytest.approx(wide, rel=1e-4)
    assert rounded[-1] != pytest.approx(wide[-1], rel=1e-6)


@pytest.mark.large
def test_fluids_adamw_decays_matrices(interpreter: Callable[[str], str], tmp_path: Path) -> None:
    """Fluid adds epsilon before Adam's bias is corrected: one so small leaves no difference."""
    code = tmp_path / "code"
    shutil.copytree(BENCHMARKS, code)
    spec = code / "workloads" / "bert_base" / "spec.json"
    text = spec.read_text().replace('"epsilon": 1e-6', '"epsilon": 1e-9')
    spec.write_text(text.replace('"weight_decay": 0.01', '"weight_decay": 10.0'))
    fluid, torch, weak = (
        run_first_step(interpreter(line), line, "bert_base", ("--steps", "4"), folder)["losses"]
        for line, folder in (("paddle1", code), ("pytorch", code), ("pytorch", BENCHMARKS))
    )
    assert fluid == pytest.approx(torch, rel=2e-5)
    assert torch[-1] != pytest.approx(weak[-1], rel=1e-4)


@pytest.mark.slow
def test_the_program_of_servers_is_the_same_network(
    interpreter: Callable[[str], str], first_step: FirstStep, tmp_path: Path
) -> None:
    code = shipped(tmp_path)
    trainer = code / "frameworks" / "paddle2" / "trainer.py"
    asked = 'served = context.case["strategy"] == "parameter_server"'
    text = trainer.read_text(encoding="utf-8")
    assert asked in text
    trainer.write_text(text.replace(asked, "served = True"), encoding="utf-8")
    program = run_first_step(interpreter("paddle2"), "paddle2", "ctr_dnn", (), code)
    hold_equal("ctr_dnn", program, first_step("paddle2", "ctr_dnn"))


@pytest.mark.slow
def test_a_wrong_gradient_is_found_and_named(
    interpreter: Callable[[str], str], first_step: FirstStep, tmp_path: Path
) -> None:
    step = "        self.scaler.step(self.optimizer)\n"
    doubled = "        next(self.model.parameters()).grad *= 2\n"
    code = broken(tmp_path, "pytorch", (step, doubled + step))

    def wrong_step(line: str, workload: str, *words: str) -> dict[str, Any]:
        return run_first_step(interpreter(line), line, workload, words, code)

    for found in (
        differences(wrong_step("pytorch", "word2vec"), first_step("pytorch", "word2vec")),
        gradients_of_no_loss(wrong_step, "pytorch", "word2vec", tmp_path),
    ):
        (sentence,) = found
        assert sentence.startswith("words.weight: norm of the gradient ")


@pytest.mark.slow
def test_half_of_a_batch_is_found_with_and_without_another_line(
    interpreter: Callable[[str], str], first_step: FirstStep, tmp_path: Path
) -> None:
    code = broken(tmp_path, "pytorch", HALF_A_BATCH["pytorch"])

    def half_step(line: str, workload: str, *words: str) -> dict[str, Any]:
        return run_first_step(interpreter(line), line, workload, words, code)

    (sentence,) = unused_halves(half_step, "pytorch", "word2vec")
    assert sentence.startswith("pytorch does not train on the second half of the batch: the loss ")
    found = differences(half_step("pytorch", "word2vec"), first_step("pytorch", "word2vec"))
    assert any("mean over all samples" in each for each in found)
