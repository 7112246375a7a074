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
from nightbench.testkit.cells import differences

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


STEP = {"line": "one", "loss": 2.0, "parameters": 3, "gradient_norms": {"a": 1.0, "b": 2.0}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"loss": 2.01}, ["loss: 2 in one, 2.01 in two"]),
        ({"loss": float("nan")}, ["loss: 2 in one, nan in two"]),
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
