"""What an acceptance misses on nodes: slow devices and links, and what was not measured."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from nightbench.accept.controls import peak_remarks, short_controls
from nightbench.core.model import Cluster, Node
from nightbench.night.cluster_preflight import ClusterHealth
from nightbench.nodes import Control, FindingLevel, JudgedNode, NodePreflight

CLUSTER = Cluster("c", (Node("n1", "n1", "ssh"),), device_kind="gpu")

COPY = Control("n1", "memory_copy", "gpu-0", "torch cuda", "GB/s", (900.0, 1000.0, 1100.0))
RING = Control("n1+n2", "all_reduce", "network", "tcp", "GB/s", (0.5,))


def health(*controls: Control, busy: tuple[str, ...] = (), gpus: str = "") -> ClusterHealth:
    gpu = {"gpus": [{"name": gpus}]} if gpus else {}
    seen = NodePreflight("n1", "n1:22", "2026-11-01T00:00:00+00:00", True, document=gpu)
    at = datetime(2026, 11, 1, tzinfo=UTC)
    return ClusterHealth("c", at, (JudgedNode(seen, ()),), controls=controls, busy=busy)


def found(least: dict[str, float], *busy: str) -> list[tuple[str, FindingLevel, str]]:
    short = short_controls(health(COPY, RING, busy=busy), least)
    return [(each.title, each.level, each.found) for each in short]


def test_each_control_is_held_against_the_clusters_least() -> None:
    assert found({}) == []
    assert found({"memory_copy": 1000.0, "all_reduce": 0.5}) == []
    assert found({"memory_copy": 1001.0}) == [
        ("n1 gpu-0 memory_copy", FindingLevel.FAIL, "1000 GB/s")
    ]


def test_what_was_not_measured_falls_short_and_what_others_disturbed_is_not_judged() -> None:
    assert found({"matrix_product": 1.0}) == [("matrix_product", FindingLevel.FAIL, "not measured")]
    assert found({"all_reduce": 9.0}, "n2") == [
        ("n1+n2 network all_reduce", FindingLevel.WARN, "0.5 GB/s, on a busy node")
    ]


def test_products_have_their_share_of_the_peak_of_their_precision() -> None:
    half = Control("n1", "matrix_product_bf16", "gpu-0", "torch cuda", "GFLOP/s", (494_700.0,))
    single = Control("n1", "matrix_product", "gpu-0", "torch cuda", "GFLOP/s", (50_000.0,))
    of_cpu = Control("n1", "matrix_product", "cpu", "python-3.11", "GFLOP/s", (0.02,))
    elsewhere = dataclasses.replace(half, node="n2")
    every = (half, single, of_cpu, COPY, elsewhere)
    assert peak_remarks(health(*every, gpus="NVIDIA H100 80GB HBM3"), CLUSTER) == [
        "n1 gpu-0 matrix_product_bf16: 4.947e+05 GFLOP/s, 50% of the dense peak",
        "n1 gpu-0 matrix_product: 5e+04 GFLOP/s, 75% of the dense peak",
    ]
    cluster = dataclasses.replace(CLUSTER, peak_flops={"bf16": 989.4e12, "fp32": 60e12})
    assert peak_remarks(health(half, single, gpus="another"), cluster) == [
        "n1 gpu-0 matrix_product_bf16: 4.947e+05 GFLOP/s, 50% of the dense peak",
        "n1 gpu-0 matrix_product: 5e+04 GFLOP/s, 83% of the dense peak",
    ]
    assert peak_remarks(health(half, busy=("n1",), gpus="another"), cluster) == []
