"""`nightbench plan`: of a suite that launches other people's scripts, and its reasons."""

from __future__ import annotations

import json
import re

import pytest
from tests.unit.cli.test_command import CLUSTER, REPO, nightbench

H100 = """\
cluster: h100
nodes:
  - {hosts: 127.0.0.2, ssh_conn_id: nowhere}
devices: {kind: gpu, per_node: 8, compute_capability: "9.0"}
"""
BERT = """\
suite: bert
owner: tests
cluster: h100
protocol: {warmup_steps: 1, measured_steps: 5, repeats: 2}
matrix:
  - workload: bert_base
    frameworks: paddle3
    strategy: collective
    devices: [1x1, 1x8]
    batch_size_per_device: 32
    sequence_length: 128
"""


@pytest.fixture
def scripts(tmp_path):
    example = re.search(r"```yaml\n(.*?)```", (REPO / "docs" / "scripts.md").read_text(), re.DOTALL)
    assert example is not None
    suite = example[1].replace("[1x8, 4x8]", "[1x1, 2x1]")
    cluster = CLUSTER.replace("cluster: pair", "cluster: lab")
    for name, text in (("clusters/lab.yaml", cluster), ("suites/examples.yaml", suite)):
        path = tmp_path / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize("words", [(), ("--night",), ("--json",)])
def test_commands_are_planned_as_workloads_are(scripts, words):
    done = nightbench(scripts, "plan", "examples", *words)
    assert done.returncode == 0, done.stderr
    assert "imagenet_example" in done.stdout
    assert "bert_horovod" in done.stdout
    if words == ("--json",):
        assert {case["unavailable"] for case in json.loads(done.stdout)} == {None}


@pytest.mark.parametrize("words", [(), ("--night",)])
def test_cases_that_are_unavailable_for_one_reason_take_one_line(tmp_path, words):
    for name, text in (("clusters/h100.yaml", H100), ("suites/bert.yaml", BERT)):
        path = tmp_path / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    done = nightbench(tmp_path, "plan", "bert", "--untried", *words)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("unavailable:")]
    assert len(lines) == 1
    assert lines[0].startswith("unavailable: 2 cases: ")
