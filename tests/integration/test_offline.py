"""A plan is exported, measured without SSH by `agent.py run`, and loaded as any run is."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.integration.terminal import REPO, TRIAL, Terminal, marked

from nightbench.spool import Spool

CASE = "sleep-fake-collective-1x1-bs2-smoke"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    place = tmp_path_factory.mktemp("offline")
    suite = TRIAL.split("  - workload")[0] + "  - workload" + TRIAL.split("  - workload")[1]
    for name, text in (
        ("suites/trial.yaml", suite),
        ("clusters/local.yaml", (REPO / "dags/clusters/local.yaml").read_text()),
    ):
        (place / "dags" / name).parent.mkdir(parents=True)
        (place / "dags" / name).write_text(text)
    return Terminal(place)


def exported(here: Terminal, folder: Path, *words: str) -> Path:
    done = here.run("offline", "export", "trial", str(folder), *words)
    assert done.returncode == 0, done.stderr
    assert (
        "left out, because it needs several nodes: sleep-fake-collective-2x1-bs2-smoke"
        in done.stderr
    )
    return folder


def agent_run(folder: Path) -> list[str]:
    return [sys.executable, str(folder / "code" / "agent.py"), "run", str(folder)]


@pytest.fixture(scope="module")
def measured(here: Terminal, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = exported(here, tmp_path_factory.mktemp("machine") / "plan")
    done = subprocess.run(agent_run(folder), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"case 1 of 1, {CASE}: repeat 2 of 2: ok" in done.stderr
    assert json.loads(done.stdout)["cases"] == {CASE: ["ok", "ok"]}
    assert marked(json.loads(done.stdout)["run_id"]) == []
    return folder


def copy_of(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "copy"))


SPOIL = {
    "a result": ("jobs/{}/nodes/n1/repeats/002/result.json", "result.json: was changed after"),
    "the job": ("jobs/{}/job.json", "job.json: was changed after"),
    "the code": ("code/measure.py", "code: was changed after the export"),
}


@pytest.mark.parametrize("what", SPOIL)
def test_what_was_changed_is_refused(here: Terminal, measured: Path, tmp_path: Path, what: str):
    folder = copy_of(measured, tmp_path)
    name, said = SPOIL[what]
    path = folder / name.format(CASE)
    path.write_text(path.read_text() + "\n")
    done = here.run("offline", "load", str(folder))
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr


def test_what_is_not_complete_is_refused(here: Terminal, measured: Path, tmp_path: Path):
    folder = copy_of(measured, tmp_path)
    (folder / "jobs" / CASE / "nodes/n1/repeats/001/result.json").unlink()
    assert "result.json: is missing" in here.run("offline", "load", str(folder)).stderr
    (folder / "jobs" / CASE / "measured.json").unlink()
    assert "not measured completely" in here.run("offline", "load", str(folder)).stderr
    assert "found no export.json" in here.run("offline", "load", str(tmp_path)).stderr


def test_a_run_that_was_planned_elsewhere_is_refused(measured: Path, here: Terminal, tmp_path):
    done = here.run("offline", "load", str(measured), NIGHTBENCH_SPOOL=str(tmp_path / "spool"))
    assert "was not planned here" in done.stderr


def test_a_run_is_loaded_once(here: Terminal, measured: Path, tmp_path: Path) -> None:
    run_id = json.loads((measured / "export.json").read_text())["run_id"]
    # A spool of its own: where a run is loaded already, what was changed is not even looked at.
    spool = shutil.copytree(here.home / "spool", tmp_path / "spool")
    run, own = Spool(spool).run(run_id), {"NIGHTBENCH_SPOOL": str(spool)}
    done = here.run("offline", "load", str(measured), **own)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(here.run("results", "--run", run_id, "--json", **own).stdout)
    assert (row["run_id"], row["n"], row["status"]) == (run_id, 2, "ok")
    before = {path: path.read_bytes() for path in Path(str(run.folder)).rglob("*.json")}
    assert here.run("offline", "load", str(measured), **own).returncode == 0
    assert {path: path.read_bytes() for path in Path(str(run.folder)).rglob("*.json")} == before


def test_what_fails_there_says_why(here: Terminal, tmp_path: Path) -> None:
    folder = exported(here, tmp_path / "plan")
    absent = subprocess.run(
        [*agent_run(folder), "--python", str(tmp_path / "none")], capture_output=True, text=True
    )
    assert absent.returncode != 0
    refused = json.loads(absent.stdout)["error"]
    assert refused == f"--python: found '{tmp_path / 'none'}', which is no program here"
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no module named framework'\nexit 3\n")
    broken.chmod(0o755)
    done = subprocess.run(
        [*agent_run(folder), "--python", str(broken)], capture_output=True, text=True, timeout=300
    )
    assert "repeat 1 of 2: failed: trainer-0 process_exited code 3" in done.stderr
    assert "no module named framework" in done.stderr
    assert f"its logs: {folder / 'jobs' / CASE / 'nodes/n1/repeats/001'}" in done.stderr


def test_ctrl_c_leaves_nothing_and_the_next_call_goes_on(here: Terminal, tmp_path: Path) -> None:
    folder = exported(here, tmp_path / "plan", "--repeats", "3")
    run_id = json.loads((folder / "export.json").read_text())["run_id"]
    running = subprocess.Popen(agent_run(folder), stderr=subprocess.PIPE, text=True)
    first = folder / "jobs" / CASE / "nodes/n1/repeats/001"
    limit = time.monotonic() + 300
    while not (first.parent / "002" / "launched").exists() and time.monotonic() < limit:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=300)
    assert running.returncode == 130, said
    assert marked(run_id) == []
    kept = (first / "result.json").read_bytes()
    done = subprocess.run(agent_run(folder), capture_output=True, text=True, timeout=300)
    assert json.loads(done.stdout)["cases"] == {CASE: ["ok", "ok", "ok"]}
    assert (first / "result.json").read_bytes() == kept
    assert "repeat 1 of 3" not in done.stderr
    assert here.run("offline", "load", str(folder)).returncode == 0
