"""`nightbench plan` of a suite that launches other people's scripts: that of docs/scripts.md."""

from __future__ import annotations

import json
import re

import pytest
from tests.unit.cli.test_command import CLUSTER, REPO, nightbench


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
