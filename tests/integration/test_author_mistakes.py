"""Mistakes of who writes a workload or a framework line: what the terminal says of each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.terminal import Terminal, terminal
from tests.shipped import shipped

REPO = Path(__file__).resolve().parents[2]

SUITE = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 1, measured_steps: 2, repeats: 1}
matrix:
  - workload: [at_import, in_step, in_data, not_python, well]
    frameworks: fake
    strategy: collective
    batch_size_per_device: 2
"""
MISTAKES = {
    "at_import": ("python.py", "import no_such_module\n", None),
    "in_step": ("python.py", None, ("return model(batch)", "return model.lost")),
    "in_data": ("data.py", "LABELS = {}['labels']\n", None),
    "not_python": ("python.py", "def (\n", None),
}
CASE = "{}-fake-collective-1x1-bs2-smoke"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    benchmarks = shipped(tmp_path_factory.mktemp("shipped"))
    sleep = benchmarks / "workloads" / "sleep"
    for name in (*MISTAKES, "well"):
        folder = shutil.copytree(sleep, sleep.with_name(name))
        spec = json.loads((folder / "spec.json").read_text())
        (folder / "spec.json").write_text(json.dumps({**spec, "name": name}))
    for name, (file, text, change) in MISTAKES.items():
        path = sleep.with_name(name) / file
        written = path.read_text()
        if change is not None:
            assert change[0] in written
            written = written.replace(*change)
        path.write_text((text or "") + written)
    place = tmp_path_factory.mktemp("mistakes")
    with terminal(place, SUITE, NIGHTBENCH_BENCHMARKS=str(benchmarks)) as made:
        yield made


@pytest.mark.slow
def test_each_mistake_reaches_its_author_and_spoils_no_other_case(here: Terminal) -> None:
    done = here.run("run", "trial", "--direct")
    assert done.returncode == 1, done.stdout + done.stderr
    rows = {row["case_id"]: row for row in here.rows()}
    assert {name: rows[CASE.format(name)]["status"] for name in (*MISTAKES, "well")} == {
        "at_import": "failed",
        "in_step": "failed",
        "in_data": "failed",
        "not_python": "unavailable",
        "well": "ok",
    }
    words = {
        "at_import": "ModuleNotFoundError: No module named 'no_such_module' "
        "(workloads/at_import/python.py, line 1)",
        "in_step": "AttributeError: 'Sleeper' object has no attribute 'lost'",
        "in_data": "KeyError: 'labels' (workloads/in_data/data.py, line 1)",
        "not_python": "workloads/not_python/python.py:1: not valid Python",
    }
    run_id = here.newest().run_id
    report = (here.home / "reports" / f"{run_id}.md").read_text()
    for name, said in words.items():
        row = rows[CASE.format(name)]
        assert said in done.stdout, done.stdout
        assert said in report
        if row["status"] == "failed":
            assert row["error"].startswith("[n1 trainer-0]\n")
            assert f"nightbench logs --run {run_id} --case {row['case_id']}" in done.stdout
            logs = here.run("logs", "--run", run_id, "--case", row["case_id"])
            assert said.partition(" (")[0] in logs.stdout, logs.stderr
        outcome = here.newest().case(row["case_id"]).outcome()
        assert outcome is not None
        assert outcome["faults"] == [], "no mistake of an author is a fault of the node"
