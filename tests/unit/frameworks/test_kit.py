"""Our own lines and workloads by the kit that projects test theirs with: what trains nothing."""

from __future__ import annotations

import pytest

from nightbench.testkit import cell_tests
from nightbench.testkit.cell_tests import (
    test_a_line_starts_the_processes_of_a_node_by_variables_that_it_names,
    test_batches_are_a_rank_s_own_and_weights_the_seed_s,
    test_nothing_is_wrong_in_the_files,
    test_weights_have_the_count_that_every_scale_states,
)
from nightbench.testkit.cells import differences, unused_halves

__all__ = [
    "test_a_line_starts_the_processes_of_a_node_by_variables_that_it_names",
    "test_batches_are_a_rank_s_own_and_weights_the_seed_s",
    "test_nothing_is_wrong_in_the_files",
    "test_weights_have_the_count_that_every_scale_states",
]

HEAVY = "vgg16"
"""At scale smoke too its weights take seconds to draw."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "workload" in metafunc.fixturenames:
        marks = {HEAVY: pytest.mark.large}
        each = [pytest.param(x, marks=marks.get(x, ())) for x in cell_tests.trained()]
        metafunc.parametrize("workload", each)
    else:
        cell_tests.pytest_generate_tests(metafunc)


EXPECTED = "expected the mean over all samples of the same batch, from the same weights"
STEP = {"line": "one", "loss": 2.0, "parameters": 3, "gradient_norms": {"a": 1.0, "b": 2.0}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"loss": 2.01}, [f"loss: 2 in one, 2.01 in two; {EXPECTED}"]),
        ({"loss": float("nan")}, [f"loss: 2 in one, nan in two; {EXPECTED}"]),
        ({"parameters": 4}, ["parameters: 3 in one, 4 in two"]),
        (
            {"gradient_norms": {"a": 1.0, "b": 1.0}},
            ["b: norm of the gradient 2 in one, 2 times two's"],
        ),
        ({"gradient_norms": {"a": 1.0}}, ["b: only one has it"]),
        (
            {"gradient_norms": {"a": 0.0, "b": 2.0}},
            ["a: it has no gradient (1 in one, 0 in two)"],
        ),
    ],
)
def test_a_difference_names_the_parameter(changes: dict[str, object], said: list[str]) -> None:
    assert differences(STEP, {**STEP, "line": "two", **changes}) == said


@pytest.mark.parametrize(
    ("trained", "unused"), [("first", "second"), ("second", "first"), ("both", None)]
)
def test_a_line_that_trains_on_half_of_a_batch_is_named_without_another_line(
    trained: str, unused: str | None
) -> None:
    def first_step(line: str, workload: str, *words: str) -> dict[str, float]:
        first, second = {"first": (1.0, 1.0), "second": (3.0, 3.0)}.get(words[-1], (1.0, 3.0))
        losses = {"first": first, "second": second, "both": (first + second) / 2}
        return {"loss": losses[trained]}

    found = unused_halves(first_step, "mine", "work", "--execution", "default")
    assert [each[: each.index(" of the batch")] for each in found] == (
        [f"mine does not train on the {unused} half"] if unused else []
    )
