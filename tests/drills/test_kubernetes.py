"""Gangs in pods of a real Kubernetes: medians, and what Kubernetes does to pods.

`KUBECONFIG` names the cluster, whose namespace `default` the drill uses; `NIGHTBENCH_DRILL_IMAGE`
an image with Python [default: localhost/base:1].
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.command import COMMAND
from tests.integration.terminal import TRIAL, Terminal

from nightbench.core.model import ReasonCode
from nightbench.core.pod_manifests import APP, NAME
from nightbench.gang.kubernetes_api import ApiAccess, opened_api
from nightbench.gang.pod_states import PodState, state_of

pytest.importorskip("kubernetes_asyncio")
pytestmark = pytest.mark.skipif(
    "KUBECONFIG" not in os.environ, reason="needs KUBECONFIG of a cluster for tests"
)

IMAGE = os.environ.get("NIGHTBENCH_DRILL_IMAGE", "localhost/base:1")
ACCESS = ApiAccess("drill", path=os.environ.get("KUBECONFIG"))
ONE, GANG = (f"sleep-fake-{each}-bs2-smoke" for each in ("collective-1x1", "collective-2x1"))
LIMIT_S = 300

CLUSTER = """\
cluster: local
shared: true
nodes: [{hosts: "pod[1-2]"}]
kubernetes:
  images: {fake: "IMAGE"}
  pinned: false
  resources: {cpu: 300m, memory: 512Mi}
  wait: 2m
  time_limit: 1h
"""


def place_of(folder: Path, suite: str = TRIAL, image: str = IMAGE) -> Terminal:
    """A terminal whose cluster `local` is of pods."""
    cluster = CLUSTER.replace("IMAGE", image)
    for name, text in (("suites/trial.yaml", suite), ("clusters/local.yaml", cluster)):
        path = folder / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    extra = {"kube_config_path": ACCESS.path}
    connection = json.dumps({"conn_type": "kubernetes", "extra": extra})
    return Terminal(folder, {"AIRFLOW_CONN_KUBERNETES_DEFAULT": connection})


def pods(here: Terminal) -> list[PodState]:
    """The pods of the only run; others may use the namespace."""
    (run,) = here.spool.runs()

    async def ask() -> list[PodState]:
        async with opened_api(ACCESS) as api:
            return [state_of(each) for each in await api.pods("default", {NAME: APP})]

    return [pod for pod in asyncio.run(ask()) if pod.job_id.startswith(f"{run.run_id}/")]


def delete(name: str) -> None:
    async def ask() -> None:
        async with opened_api(ACCESS) as api:
            await api.delete_pod("default", name)

    asyncio.run(ask())


def slow_gang(devices: str = "2x1") -> str:
    """One case alone, with windows of some 30 s."""
    head, gang, _ = TRIAL.split("  - workload")
    head = head.replace("measured_steps: 20", "measured_steps: 3000")
    return f"{head}  - workload{gang}".replace("[1x1, 2x1]", devices).replace(
        "repeats: 2", "repeats: 3"
    )


def start(here: Terminal) -> subprocess.Popen[str]:
    words = [*COMMAND, "run", "trial", "--direct"]
    environment = {**here.environment(), **here.more}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)


def wait_for_window(here: Terminal, case_id: str = GANG) -> None:
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        for run in here.spool.runs():
            if (run.case(case_id, 0).progress() or {}).get("phase") == "window":
                return
        time.sleep(0.2)
    pytest.fail("no window opened")


def outcome(here: Terminal, case_id: str = GANG) -> dict[str, Any]:
    found = here.newest().case(case_id, 0).outcome()
    assert found is not None
    return found


def test_medians_and_nothing_is_left(tmp_path: Path) -> None:
    here = place_of(tmp_path)
    done = here.run("run", "trial", "--direct")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {(row["n"], row["status"]) for row in here.rows()} == {(2, "ok")}
    assert len(here.rows()) == 3
    assert pods(here) == []


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    here = place_of(tmp_path, image="localhost/none:1")
    assert here.run("run", "trial", "--direct").returncode != 0
    (reason,) = outcome(here)["reasons"]
    assert reason["code"] == ReasonCode.POD_IMAGE
    assert "localhost/none:1" in reason["observed"]
    assert pods(here) == []


LOST = {"follower": ("2x1", GANG, 1), "lead": ("2x1", GANG, 0), "alone": ("1x1", ONE, 0)}


@pytest.mark.parametrize("which", LOST)
def test_a_pod_that_is_deleted_costs_one_repeat(tmp_path: Path, which: str) -> None:
    devices, case_id, place = LOST[which]
    here = place_of(tmp_path, slow_gang(devices))
    running = start(here)
    wait_for_window(here, case_id)
    victim = sorted((pod.node, pod.name) for pod in pods(here))[place][1]
    delete(victim)
    said, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, said
    statuses = [repeat["status"] for repeat in outcome(here, case_id)["repeats"]]
    assert statuses == ["failed", "ok", "ok"]
    record = here.newest().case(case_id, 0).repeat(1) or {}
    assert record["reasons"][0]["code"] in {ReasonCode.POD_DELETED, ReasonCode.POD_ENDED}
    assert pods(here) == []


def test_ctrl_c_leaves_no_pod(tmp_path: Path) -> None:
    here = place_of(tmp_path, slow_gang())
    running = start(here)
    wait_for_window(here)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=LIMIT_S)
    assert outcome(here)["status"] == "cancelled"
    assert pods(here) == []


def test_cancel_ends_a_run_of_another_terminal(tmp_path: Path) -> None:
    here = place_of(tmp_path, slow_gang())
    running = start(here)
    wait_for_window(here)
    done = here.run("cancel", here.newest().run_id)
    assert done.returncode == 0, done.stderr
    running.communicate(timeout=LIMIT_S)
    assert outcome(here)["status"] == "cancelled"
    assert pods(here) == []


def test_cancel_deletes_the_pods_of_a_killed_run(tmp_path: Path) -> None:
    here = place_of(tmp_path, slow_gang())
    running = start(here)
    wait_for_window(here)
    running.kill()
    running.communicate(timeout=LIMIT_S)
    assert len(pods(here)) == 2
    done = here.run("cancel", here.newest().run_id)
    assert done.returncode == 0, done.stderr
    assert pods(here) == []
