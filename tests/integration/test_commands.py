"""Scripts that know nothing of Nightbench are measured as every case is, by what they log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.terminal import Terminal, marked, terminal

from nightbench.night.load_batch import build_load_batch

SCRIPT = Path(__file__).parent / "scripts" / "train.py"
FAULTS = {
    "raise": "RuntimeError: out of coffee",
    "end": "the script ended before all steps were measured",
    "garbage": "no line of the log states a step",
    "hang": "a step within 15 s",
    "lie": "window_matches_steps",
}
"""What a script does, and what is said of it."""


def command(fault: str, **log: str) -> dict[str, Any]:
    words = ["{python}", str(SCRIPT), "--rank", "{rank}", "--world-size", "{world_size}"]
    words += ["--batch-size", "{batch_size}", "--fault", fault]
    return {
        "argv": words,
        "folder": str(SCRIPT.parent),
        "unit": "images",
        "log": {"format": "pytorch_examples", **log},
    }


SUITE = json.dumps(
    {
        "suite": "trial",
        "owner": "tests",
        "cluster": "local",
        "protocol": {"warmup_steps": 10, "measured_steps": 40, "repeats": 1},
        "timeouts": {"progress": "15s"},
        "commands": {
            "sleeper": command("none"),
            "ended": {
                **command("none", of="last"),
                "argv": [*command("none")["argv"], "--last"],
                "launch": "node",
            },
            "headed": {**command("none"), "launch": "head"},
            "fed": {**command("none"), "argv": [*command("none")["argv"], "--data", "{data}"]},
            **{fault: command(fault) for fault in FAULTS},
        },
        "matrix": [
            {
                "command": ["ended", "headed", "sleeper"],
                "strategy": "collective",
                "devices": ["1x1", "2x1"],
                "batch_size_per_device": 8,
            },
            {"command": list(FAULTS), "strategy": "single", "batch_size_per_device": 8},
            {
                "command": "fed",
                "strategy": "single",
                "batch_size_per_device": 8,
                "data": ["digits", "letters", "absent"],
            },
        ],
    }
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    place = tmp_path_factory.mktemp("commands")
    for name, content in (("digits", "4711"), ("letters", "abc")):
        (place / name).write_text(content)
    data = {name: str(place / name) for name in ("digits", "letters", "absent")}
    with terminal(place, SUITE) as made:
        with (place / "dags/clusters/local.yaml").open("a") as cluster:
            cluster.write(f"data: {json.dumps(data)}\n")
        yield made


@pytest.mark.slow
def test_a_script_is_measured_by_its_log(here: Terminal) -> None:
    done = here.run("run", "trial", "--direct", "--workloads", "ended,headed,sleeper")
    rows = here.rows()
    assert done.returncode == 0, (done.stdout, done.stderr, rows)
    assert [row["n"] for row in rows] == [1] * 6
    for one, two in zip(rows[::2], rows[1::2], strict=True):
        # A log may differ from the clock by 10 %, and a busy machine is slower than it is asked.
        assert 0 < one["throughput"] <= 1.1 * 8 / 0.03
        assert two["speedup"] == pytest.approx(two["throughput"] / one["throughput"])
    run = here.spool.run(rows[0]["run_id"])
    for row in rows:
        writer = row["nodes"] if row["workload"] == "ended" else 1
        result = run.case(row["case_id"]).result(1, f"n{writer}")
        assert result is not None
        summary = result["processes"][0]["summary"]
        assert summary["samples_per_step"] == 8 * row["trainers"]
        window = summary["window"]
        assert window["steps"] == 40
        samples = summary["samples_per_step"] * window["steps"]
        assert row["throughput"] == pytest.approx(samples / window["wall_s"])
        assert set(summary["versions"]) >= {"external", "repository", "commit", "local_changes"}
    for case in build_load_batch(run).cases:
        unstated = {check.check for check in case.checks if check.observed == "not stated"}
        assert unstated >= {"precision", "loss_finite", "parameters_agree"}
        assert not [check for check in case.checks if check.quarantines]
    assert marked(run.run_id) == []


@pytest.mark.slow
def test_a_script_that_fails_has_no_figure(here: Terminal) -> None:
    cluster = here.place / "dags/clusters/local.yaml"
    alone = cluster.read_text()
    cluster.write_text(f"{alone}limits: {{parallel_cases: 2}}\n")  # no figure, none disturbed
    done = here.run("run", "trial", "--direct", "--workloads", ",".join(FAULTS))
    cluster.write_text(alone)
    assert done.returncode == 1
    rows = {row["workload"]: row for row in here.rows()}
    assert {row["status"] for row in rows.values()} == {"failed"}
    assert {row["throughput"] for row in rows.values()} == {None}
    for fault, said in FAULTS.items():
        assert said in json.dumps(rows[fault]), fault
    assert marked(rows["hang"]["run_id"]) == []


@pytest.mark.slow
def test_a_script_reads_the_data_of_the_cluster(here: Terminal) -> None:
    done = here.run("run", "trial", "--direct", "--workloads", "fed")
    assert done.returncode == 1
    rows = {row["data"]: row for row in here.rows()}
    assert rows["digits"]["throughput"] > 0
    assert "invalid literal for int() with base 10: 'abc'" in json.dumps(rows["letters"])
    assert "absent: no such file or folder on this node" in json.dumps(rows["absent"])
