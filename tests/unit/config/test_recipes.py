"""The suites of other projects' trainers: planned on a cluster of GPUs, nothing is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from frameworks.external import launch

from nightbench.config import find_suites, load_catalog, load_cluster, load_suite
from nightbench.config.locations import benchmarks_folder, dags_folder
from nightbench.core.run_plan import resolve

CLUSTER = """\
cluster: lab
nodes: [{hosts: "10.0.0.[1-2]", ssh_conn_id: lab}]
devices: {kind: gpu, per_node: 8, compute_capability: "9.0"}
environments:
  kind: container
  engine: podman
  images: {external: "nvcr.io/nvidia/trainer@sha256:DIGEST"}
  image_python: /usr/bin/python3
"""
RECIPES = {
    name: path for name, path in find_suites(dags_folder()).items() if path.parent.name == "recipes"
}
LAST = {"megatron-bridge", "megatron-lm"}
"""Trainers whose steps are printed on the last node."""
CATALOG = load_catalog(benchmarks_folder())


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_planned_at_full_scale(name: str, tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(CLUSTER.replace("DIGEST", 64 * "0"))
    cluster = load_cluster(file, catalog=CATALOG)
    suite = load_suite(RECIPES[name], CATALOG, cluster=cluster)
    assert suite.cases
    assert not suite.skipped
    catalog = CATALOG.with_commands(suite)
    for case in suite.cases:
        job = resolve(case, suite, cluster, catalog, "run-1").to_json()
        ports = {"master": 29500, **{p["name"]: 29501 for p in job["processes"]}}
        started = [
            process
            for node in job["nodes"]
            for process in launch.processes(job, node["name"], ports, "/opt/trainer/bin/python", "")
        ]
        assert len(started) == case.nodes
        words = " ".join(word for each in started for word in each["argv"])
        assert not re.search(r"[{}]", words)
        assert "mpirun" not in words
        writer = case.nodes - 1 if name in LAST else 0
        assert [p["rank"] for p in job["processes"] if p["measured"]] == [writer]


def test_the_recipes_are_found_in_their_folder() -> None:
    assert list(RECIPES) == [
        "hf-trainer", "maxtext", "megatron-bridge", "megatron-lm", "torchtitan",
    ]  # fmt: skip
