"""One figure of a case's controls for each night."""

from __future__ import annotations

from typing import Any

import pytest

from nightbench.night.case_controls import figures, kinds


def row(node: str, median: float, device: str = "cpu", metric: str = "memory_copy") -> Any:
    named = {"node": node, "metric": metric, "device": device, "backend": "b"}
    return named | {"median": median}


COPY = ("memory_copy", "cpu", "b")
RING = ("all_reduce", "network", "b")


def test_the_slowest_node_counts_and_one_without_a_figure_leaves_the_kind_out() -> None:
    rows = [row("n1", 9.0), row("n2", 7.0), row("n3", 1.0)]
    assert kinds(rows, {"n1", "n2"}) == {COPY: 7.0}
    assert kinds(rows, {"n1", "n4"}) == {}


def test_an_all_reduce_counts_between_the_same_nodes_only() -> None:
    rows = [row("n1+n2", 0.5, "network", "all_reduce")]
    assert kinds(rows, {"n1", "n2"}) == {RING: 0.5}
    assert kinds(rows, {"n1"}) == kinds(rows, {"n1", "n2", "n3"}) == {}
    rows = [row("n1+n2", 90.0, "gpus", "all_reduce_gpus"), row("n1", 400.0, "gpus", "in_node")]
    assert kinds(rows, {"n1", "n2"}) == {("all_reduce_gpus", "gpus", "b"): 90.0}


def test_a_figure_is_the_geometric_mean_and_gpus_count_as_the_slowest() -> None:
    night = kinds([row("n1", 4.0), row("n1", 9.0, "gpu-0"), row("n1", 25.0, "gpu-1")], {"n1"})
    assert figures({"a": night, "b": {}}) == {"a": pytest.approx(6.0)}


def test_only_what_most_nights_know_is_counted() -> None:
    some = {str(i): {COPY: 4.0} | ({RING: 1.0} if i < 5 else {}) for i in range(10)}
    assert figures(some) == {str(i): pytest.approx(4.0) for i in range(10)}
    most = {str(i): {COPY: 4.0} | ({RING: 1.0} if i < 8 else {}) for i in range(10)}
    assert figures(most) == {str(i): pytest.approx(2.0) for i in range(8)}
    assert figures({"a": {}}) == figures({}) == {}
