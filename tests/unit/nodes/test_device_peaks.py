"""Peaks of devices, and MFU or why there is none."""

from __future__ import annotations

import dataclasses

import pytest

from nightbench.core.model import Build, Case, Cluster, Measurement, Node, PlannedCase, Strategy
from nightbench.nodes.device_peaks import device_of, known_devices, peak_of, with_model_flops

GPUS = Cluster("g", (Node("n1", "n1", "ssh"),), device_kind="gpu", devices_per_node=8)
CASE = Case("net", "pytorch", Strategy.COLLECTIVE, devices_per_node=8, trainers=8, precision="bf16")
PLANNED = PlannedCase(CASE, Build("pytorch"), flops_per_unit=24e9, tokens_per_unit=128.0)
H100 = "NVIDIA H100 80GB HBM3"


def node(*gpus: str) -> dict[str, object]:
    return {"cpu": {"model": "AMD EPYC"}, "gpus": [{"model": name} for name in gpus]}


def measured(
    throughput: float | None = 20_000.0,
    planned: PlannedCase = PLANNED,
    cluster: Cluster = GPUS,
    nodes: tuple[dict[str, object], ...] = (node(H100, H100),),
) -> Measurement:
    bare = Measurement("r", planned.case, "g", planned.build, "images", (), 3, throughput)
    return with_model_flops(bare, planned, cluster, nodes)


def test_every_peak_has_a_source_and_grows_with_fewer_bits():
    for row in known_devices():
        assert row["source"]
        peaks = [float(row[name]) for name in ("fp32", "tf32", "bf16") if row[name]]
        assert peaks == sorted(peaks)
        assert peaks or row["fp16"]


@pytest.mark.parametrize(
    ("device", "precision", "tflops"),
    [
        (H100, "bf16", 989.4),
        (H100, "fp32", 67.0),
        ("NVIDIA H100 PCIe", "bf16", 756.0),
        ("Tesla V100-SXM2-16GB", "fp16", 125.0),
        ("Tesla V100-SXM2-16GB", "bf16", None),
        ("NVIDIA H100", "bf16", None),
        ("NVIDIA H200 NVL", "bf16", None),
        (None, "bf16", None),
    ],
)
def test_a_peak_is_that_of_the_very_device(device, precision, tflops):
    assert peak_of(device, precision, {}) == (tflops and pytest.approx(tflops * 1e12))


def test_a_clusters_own_peak_goes_first():
    cluster = dataclasses.replace(GPUS, peak_flops={"bf16": 5e14})
    assert peak_of(H100, "bf16", cluster.peak_flops) == 5e14
    assert peak_of(H100, "fp16", cluster.peak_flops) == 989.4e12


def test_nodes_of_several_models_have_no_device():
    assert device_of([node(H100), node(H100)], "gpu") == H100
    assert device_of([node(H100), node("NVIDIA H200")], "gpu") is None
    assert device_of([node(H100)], "cpu") == "AMD EPYC"
    assert device_of([], "gpu") is None
    assert device_of([{"gpus": [{"index": 0}]}, {}], "gpu") is None
    assert device_of([{}], "cpu") is None


def test_mfu_is_model_flops_over_the_peak_of_all_devices():
    found = measured()
    assert found.tokens_per_s == 20_000 * 128
    assert found.model_flops_per_s == 20_000 * 24e9
    assert found.peak_flops == 8 * 989.4e12
    assert found.mfu == pytest.approx(4.8e14 / 7.9152e15)
    assert (found.device, found.mfu_absent) == (H100, None)


def test_without_peak_or_flops_it_says_why_there_is_no_mfu():
    unknown = measured(nodes=(node("NVIDIA X1"),))
    assert (unknown.mfu, unknown.model_flops_per_s) == (None, 4.8e14)
    assert unknown.mfu_absent == "no peak of NVIDIA X1 at bf16 is known"
    mixed = measured(nodes=(node(H100), node("NVIDIA H200")))
    assert mixed.mfu_absent == "no peak of its devices at bf16 is known"
    silent = measured(planned=dataclasses.replace(PLANNED, flops_per_unit=None))
    assert (silent.mfu, silent.mfu_absent) == (None, "net states no model FLOPs")
    assert measured(throughput=None).mfu_absent is None
