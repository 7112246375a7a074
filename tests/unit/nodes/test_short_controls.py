"""What an acceptance misses on nodes: slow devices and links, and what was not measured."""

from __future__ import annotations

from nightbench.nodes import Control, FindingLevel, product_shares, short_controls

COPY = Control("n1", "memory_copy", "gpu-0", "torch cuda", "GB/s", (900.0, 1000.0, 1100.0))
RING = Control("n1+n2", "all_reduce", "network", "tcp", "GB/s", (0.5,))


def found(least: dict[str, float], *busy: str) -> list[tuple[str, FindingLevel, str]]:
    return [
        (each.title, each.level, each.found) for each in short_controls([COPY, RING], busy, least)
    ]


def test_each_control_is_held_against_the_clusters_least() -> None:
    assert found({}) == []
    assert found({"memory_copy": 1000.0, "all_reduce": 0.5}) == []
    assert found({"memory_copy": 1001.0}) == [
        ("n1 gpu-0 memory_copy", FindingLevel.FAIL, "1000 GB/s")
    ]


def test_what_was_not_measured_falls_short_and_what_others_disturbed_is_not_judged() -> None:
    assert found({"matrix_product": 1.0}) == [("matrix_product", FindingLevel.FAIL, "not measured")]
    assert found({"all_reduce": 9.0}, "n2") == [
        ("n1+n2 network all_reduce", FindingLevel.WARN, "0.5 GB/s, during foreign work")
    ]


def test_products_have_their_share_of_the_peak_of_their_precision() -> None:
    half = Control("n1", "matrix_product_bf16", "gpu-0", "torch cuda", "GFLOP/s", (494_700.0,))
    single = Control("n1", "matrix_product", "gpu-0", "torch cuda", "GFLOP/s", (50_000.0,))
    of_cpu = Control("n1", "matrix_product", "cpu", "python-3.11", "GFLOP/s", (0.02,))
    peaks = {("n1", "bf16"): 989.4e12, ("n1", "fp32"): None}
    found = product_shares([half, single, of_cpu, COPY], lambda *key: peaks[key])
    assert [(each.metric, share) for each, share in found] == [("matrix_product_bf16", 0.5)]
