"""What the ready-made questions compare is equal in every axis but one: a decoy for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import pytest

from nightbench.core.model import Build, Case, PlannedCase, RunKind, Strategy

DECOYS: dict[str, Any] = {
    "workload": "vgg16",
    "framework": "jax",
    "strategy": Strategy.SINGLE,
    "nodes": 2,
    "devices_per_node": 8,
    "trainers": 4,
    "pservers": 3,
    "batch_size_per_device": 64,
    "shard": 2,
    "shard_stage": 3,
    "tensor": 2,
    "context": 2,
    "expert": 2,
    "pipeline": 2,
    "schedule": "gpipe",
    "micro_batches": 4,
    "recompute": "full",
    "state_precision": "bf16",
    "tuning": "ddp_static_graph",
    "precision": "bf16",
    "sync": "async",
    "compiler": "xla",
    "execution": "graph",
    "layout": "nhwc",
    "sequence_length": 512,
    "compression": "dgc",
    "link_bandwidth": "1Gbit",
    "threads": 1,
    "sparsity": 99.9,
    "cpus": 10,
    "memory_mb": 5000,
    "data": "imagenet",
    "scale": "full",
}
"""Axis -> a value that `given.case` does not have."""
PREFIX = Build("pytorch", source="path", location="/opt/pytorch")


def test_every_axis_has_a_decoy() -> None:
    assert DECOYS.keys() == {field.name for field in dataclasses.fields(Case)}


def load(loader, given, *figures: tuple[Case, float], **more: Any) -> None:
    run = given.run()
    came = [given.came_back(run, case, (value,), **more) for case, value in figures]
    loader.runs.load(given.batch(run, *came))


NAMED_TOGETHER = ("trainers", "pservers")
"""Axes that a collective's name leaves out: their decoys would be one series."""


def decoys(of: Case, axes: Collection[str]) -> list[tuple[Case, float]]:
    """Return the case with each of its axes changed alone, and what would be the best figure."""
    assert axes
    return [(dataclasses.replace(of, **{axis: DECOYS[axis]}), 99.0) for axis in sorted(axes)]


@pytest.mark.parametrize("absent", NAMED_TOGETHER)
def test_lines_are_ranked_among_equal_work(loader, given, ask, absent):
    pytorch, paddle, jax = (given.case(framework=name) for name in ("pytorch", "paddle3", "jax"))
    others = decoys(jax, DECOYS.keys() - {"framework", absent})
    load(loader, given, (pytorch, 10.0), (paddle, 8.0), *others)
    assert [
        (r["framework"], float(r["relative_to_fastest"])) for r in ask("framework_comparison")
    ] == [
        ("pytorch", 1.0),
        ("paddle3", 0.8),
    ]
    (pair,) = ask("compare_frameworks")
    assert (pair["framework"], pair["other_framework"], float(pair["ratio"])) == (
        "paddle3",
        "pytorch",
        0.8,
    )


def test_dgc_is_compared_with_equal_work(loader, given, ask):
    # The ranks of a collective follow from its nodes and devices.
    axes = DECOYS.keys() - {"compression", "sparsity", "trainers", "pservers", "nodes"}
    dense = given.case(nodes=2, link_bandwidth="10gbit")
    dgc = dataclasses.replace(dense, compression="dgc", sparsity=99.0)
    wider = (dataclasses.replace(dgc, nodes=4), 99.0)
    load(loader, given, (dense, 10.0), (dgc, 30.0), wider, *decoys(dgc, axes))
    assert [float(row["gain"]) for row in ask("dgc_bandwidth")] == [3.0]


@pytest.mark.parametrize("absent", NAMED_TOGETHER)
def test_a_batch_gains_over_a_smaller_one_of_equal_work(loader, given, ask, absent):
    small, middle, large = (given.case(batch_size_per_device=size) for size in (2, 4, 8))
    others = decoys(middle, DECOYS.keys() - {"batch_size_per_device", absent})
    load(loader, given, (small, 10.0), (large, 20.0), *others)
    found = [(r["batch_size_per_device"], r["gain_over_smaller"]) for r in ask("batch_sizes")]
    assert sorted(found, key=str) == [(2, None), *[(4, None)] * len(others), (8, 2)]


def test_environments_are_not_compared_with_each_other(loader, given, ask):
    load(loader, given, (given.case(), 10.0), (given.case(batch_size_per_device=4), 30.0))
    run = given.run(1)
    planned = PlannedCase(given.case(framework="paddle3"), PREFIX, "d1", "images")
    came = given.came_back(run, planned.case, (99.0,), build=PREFIX)
    loader.runs.load(dataclasses.replace(given.batch(run, came), planned=(planned,)))
    assert ask("framework_comparison") == []


@pytest.mark.parametrize("kind", [RunKind.ON_DEMAND, RunKind.NIGHTLY])
def test_a_private_build_is_a_point_of_its_own(loader, reader, given, ask, rows, kind):
    case = given.case()
    official = given.run(0)
    loader.runs.load(given.batch(official, given.came_back(official, case, (10.0,))))
    trial = given.run(1, run_kind=kind)
    build = Build("pytorch", source="wheel", digest="ab" * 32)
    planned = PlannedCase(case, build, "d1", "images", private_build=True, untried="no GPU")
    came = given.came_back(trial, case, (99.0,), build=build)
    loader.runs.load(dataclasses.replace(given.batch(trial, came), planned=(planned,)))

    # It is there, marked, and neither history nor newest figure.
    marks = rows("select is_private_build, untried from marts.fct_measurement order by run_id")
    assert [tuple(row.values()) for row in marks] == [(False, None), (True, "no GPU")]
    kinds = (RunKind.NIGHTLY, RunKind.ON_DEMAND)
    assert [p.value for p in reader.series.history(case.case_id, "local", kinds=kinds)] == [10.0]
    assert [r["throughput"] for r in rows("select * from marts.latest_median")] == [10.0]
    assert [r["throughput"] for r in reader.runs.results(trial.run_id)] == [99.0]
    assert [float(row["throughput"]) for row in ask("batch_sizes")] == [10.0]
    assert reader.runs.planned_cases(trial.run_id) == [planned]
