"""Cases whose framework runs in an image on the nodes, with a real engine.

NIGHTBENCH_TEST_IMAGE=sha256:…    an image of the line pytorch, from docker/framework/Dockerfile
                                 for apptainer /FILE.sif@sha256:…, made of that one
NIGHTBENCH_TEST_ENGINE=podman     the engine; NIGHTBENCH_TEST_ENGINE_OPTIONS for its `run` or `exec`
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.integration.terminal import Terminal, marked, terminal

from nightbench.core.model import Reason, ReasonCode

ENGINE = shutil.which(os.environ.get("NIGHTBENCH_TEST_ENGINE", "podman"))
IMAGE = os.environ.get("NIGHTBENCH_TEST_IMAGE", "")
KEEPS_LIST = Path(str(ENGINE)).name != "apptainer"
OPTIONS = os.environ.get("NIGHTBENCH_TEST_ENGINE_OPTIONS", "").split()

pytestmark = pytest.mark.skipif(
    not (ENGINE and IMAGE),
    reason="no engine, or no image in NIGHTBENCH_TEST_IMAGE (docs/containers.md builds one)",
)

SUITE = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 5, repeats: 2}
matrix:
  - workload: resnet50_v1.5
    frameworks: pytorch
    strategy: collective
    devices: [1x1, 2x1]
    batch_size_per_device: 2
"""
ALONE = "resnet50_v1.5-pytorch-collective-1x1-bs2-smoke"
GANG = "resnet50_v1.5-pytorch-collective-2x1-bs2-smoke"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Terminal]:
    with terminal(tmp_path, SUITE) as made:
        use(made, IMAGE)
        yield made
        assert containers() == []


def use(here: Terminal, image: str) -> None:
    path = here.place / "dags/clusters/local.yaml"
    environments = {
        "kind": "container",
        "engine": ENGINE,
        "images": {"pytorch": image},
        "image_python": "/opt/env/bin/python",
        "engine_options": OPTIONS,
        "mounts": ["/srv:ro"],
    }
    text = path.read_text().partition("environments:")[0]
    path.write_text(f"{text}environments: {json.dumps(environments)}\n")


def containers() -> list[str]:
    if not KEEPS_LIST:
        return []
    words = [str(ENGINE), "ps", "--all", "--quiet", "--filter", "label=nightbench.job"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def eventually(holds: Callable[[], object], limit_s: float = 60) -> None:
    limit = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.1)


def begun(here: Terminal) -> tuple[subprocess.Popen[str], str]:
    """A gang of which a rank runs in a container, and its run."""
    running = here.begin("run", "trial", "--direct", "--case", GANG, until="run trial-")
    run_id = here.newest().run_id
    eventually(lambda: len(ranks(run_id)) == 2)
    return running, run_id


def ranks(run_id: str) -> list[int]:
    """The processes of a run that run the image's interpreter."""
    words = {pid: words_of(pid) for pid in marked(run_id)}
    return [
        pid
        for pid, (first, *rest) in words.items()
        if first.startswith("/opt/") and any(word.endswith("rank.py") for word in rest)
    ]


def words_of(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline() or [""]
    except psutil.Error:
        return [""]


def test_a_case_is_measured_in_an_image(here: Terminal) -> None:
    done = here.run("run", "trial", "--direct")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["case_id"]: row for row in json.loads(here.run("results", "--json").stdout)}
    assert {name: row["n"] for name, row in rows.items()} == {ALONE: 2, GANG: 2}
    assert rows[GANG]["build_id"] == f"pytorch-cpu-image-{IMAGE.rpartition(':')[2][:8]}"
    run = here.newest()
    print({name: row["throughput"] for name, row in rows.items()})
    prints = run.case(GANG).fingerprint("n2")
    assert prints is not None
    assert prints["build"]["image"] == IMAGE
    assert prints["packages"]["torch"].startswith("2.13")
    assert marked(run.run_id) == []


def test_ctrl_c_leaves_no_container(here: Terminal) -> None:
    running, run_id = begun(here)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert containers() == []
    assert marked(run_id) == []


def test_a_killed_agent_leaves_no_container(here: Terminal) -> None:
    running, run_id = begun(here)
    started = [pid for pid in marked(run_id) if {"start", "n2"} <= set(words_of(pid))]
    (agent,) = (pid for pid in started if psutil.Process(pid).ppid() in started)
    os.kill(agent, signal.SIGKILL)
    running.communicate(timeout=300)
    record = here.newest().case(GANG).repeat(1)
    assert record is not None
    assert record["reasons"][0] == Reason(ReasonCode.AGENT_DIED, "n2").to_json()
    eventually(lambda: marked(run_id) == [])


def test_a_rank_that_is_killed_is_said_to_be(here: Terminal) -> None:
    running, run_id = begun(here)
    os.kill(ranks(run_id)[0], signal.SIGKILL)
    running.communicate(timeout=300)
    record = here.newest().case(GANG).repeat(1)
    assert record is not None
    assert "SIGKILL" in json.dumps(record["reasons"])


def test_what_is_not_there_is_unavailable(here: Terminal) -> None:
    use(here, IMAGE.rpartition("sha256:")[0] + "sha256:" + "0" * 64)
    done = here.run("run", "trial", "--direct", "--case", ALONE)
    assert done.returncode == 1
    said = "has no image sha256:0000" if KEEPS_LIST else "expected 0000"
    assert said in done.stdout + done.stderr
