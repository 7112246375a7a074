"""Real data through agents: the sample that ships, and sets of the cluster that are broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.terminal import Terminal, terminal

from nightbench.testkit.gangs import BENCHMARKS

pytestmark = [pytest.mark.framework, pytest.mark.large, pytest.mark.timeout(900)]

SUITE = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 12, repeats: 1}
matrix:
  - workload: [resnet50_v1.5, bert_base]
    frameworks: pytorch
    strategy: collective
    devices: 2x1
    batch_size_per_device: 4
    data: [synthetic, sample]
  - workload: ctr_dnn
    frameworks: paddle2
    strategy: parameter_server
    trainers: 2
    sync: async
    batch_size_per_device: 16
    data: [sample, short]
  - workload: resnet50_v1.5
    frameworks: pytorch
    strategy: single
    batch_size_per_device: 4
    data: [corrupt, absent]
"""


@pytest.fixture(scope="module")
def here(
    interpreter: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    place = tmp_path_factory.mktemp("data")
    sets = place / "sets"
    for name in ("corrupt", "short"):
        (sets / name / "class").mkdir(parents=True)
    (sets / "corrupt/class/cut.jpg").write_bytes(
        (BENCHMARKS / "samples/image_folder/red/1.jpg").read_bytes()[:400]
    )
    clicks = (BENCHMARKS / "samples/criteo_tsv/clicks.tsv").read_text().splitlines()
    clicks[5] = clicks[5].rpartition("\t")[0]
    (sets / "short/clicks.tsv").write_text("\n".join(clicks) + "\n")
    prefixes = {line: str(Path(interpreter(line)).parents[1]) for line in ("pytorch", "paddle2")}
    with terminal(place, SUITE) as made:
        cluster = place / "dags/clusters/local.yaml"
        text = cluster.read_text()
        assert "environments:\n" in text
        data = {name: f"{sets}/{name}" for name in ("corrupt", "short", "absent")}
        text = text.replace("environments:\n", f"environments:\n  paths: {json.dumps(prefixes)}\n")
        cluster.write_text(f"{text}data: {json.dumps(data)}\n")
        assert made.run("run", "trial", "--direct").returncode == 1
        yield made


def summaries(here: Terminal, case_id: str) -> list[dict[str, Any]]:
    case = here.newest().case(case_id)
    results = [case.result(1, node) or {} for node in ("n1", "n2")]
    processes = [process for result in results for process in result["processes"]]
    return [process["summary"] for process in processes if process["measured"]]


def reason(here: Terminal, case_id: str) -> str:
    return json.dumps(here.newest().case(case_id).outcome())


@pytest.mark.parametrize("workload", ["resnet50_v1.5", "bert_base"])
def test_two_ranks_train_on_the_sample(here: Terminal, workload: str) -> None:
    case_id = f"{workload}-pytorch-collective-2x1-bs4"
    first, second = summaries(here, f"{case_id}-sample-smoke")
    assert first["loss"]["first"] != second["loss"]["first"], "both ranks had the same data"
    assert first["weights_digest"] == second["weights_digest"]
    assert 0 <= first["data_wait_s"] * first["window"]["steps"] < first["window"]["wall_s"]
    synthetic, _ = summaries(here, f"{case_id}-smoke")
    assert "data_wait_s" not in synthetic
    assert synthetic["loss"]["first"] != first["loss"]["first"]


def test_trainers_of_a_parameter_server_read_clicks(here: Terminal) -> None:
    first, second = summaries(here, "ctr_dnn-paddle2-ps-1ps2tr-bs16-async-sample-smoke")
    assert first["loss"]["first"] != second["loss"]["first"], "both trainers had the same data"


def test_a_series_of_its_own_stands_in_the_results(here: Terminal) -> None:
    rows = here.rows()
    found = {row["case_id"]: row["throughput"] for row in rows if row["throughput"]}
    assert {case_id.split("-")[-2] for case_id in found} >= {"sample", "bs4"}


@pytest.mark.parametrize(
    ("case_id", "said"),
    [
        (
            "ctr_dnn-paddle2-ps-1ps2tr-bs16-async-short-smoke",
            "sets/short/clicks.tsv, line 6: found 39 columns; expected 40",
        ),
        (
            "resnet50_v1.5-pytorch-single-1x1-bs4-corrupt-smoke",
            "sets/corrupt/class/cut.jpg: found no readable image",
        ),
        (
            "resnet50_v1.5-pytorch-single-1x1-bs4-absent-smoke",
            "sets/absent: no such file or folder on this node",
        ),
    ],
)
def test_data_that_cannot_be_read_are_named(here: Terminal, case_id: str, said: str) -> None:
    assert said in reason(here, case_id)
