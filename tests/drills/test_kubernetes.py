"""Gangs in pods of a real Kubernetes: medians, and what Kubernetes does to pods.

`KUBECONFIG` names a cluster for tests, whose namespace `default` the drill uses, and
`NIGHTBENCH_DRILL_IMAGE` an image with Python there. Without them the drill starts one.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.drills.kubernetes.pods import GANG, LIMIT_S, ONE, Reached, slow_gang

from nightbench.core.model import ReasonCode

pytestmark = pytest.mark.timeout(900)


def test_medians_and_nothing_is_left(kubernetes: Reached, tmp_path: Path) -> None:
    here = kubernetes.place(tmp_path)
    done = here.run("run", "trial", "--direct")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {(row["n"], row["status"]) for row in here.rows()} == {(2, "ok")}
    assert len(here.rows()) == 3
    assert here.pods() == []


def test_a_missing_image_is_named(kubernetes: Reached, tmp_path: Path) -> None:
    here = Reached(kubernetes.kubeconfig, "localhost/none:1").place(tmp_path)
    assert here.run("run", "trial", "--direct").returncode != 0
    (reason,) = here.outcome()["reasons"]
    assert reason["code"] == ReasonCode.POD_IMAGE
    assert "localhost/none:1" in reason["observed"]
    assert here.pods() == []


LOST = {"follower": ("2x1", GANG, 1), "lead": ("2x1", GANG, 0), "alone": ("1x1", ONE, 0)}


@pytest.mark.parametrize("which", LOST)
def test_a_pod_that_is_deleted_costs_one_repeat(
    kubernetes: Reached, tmp_path: Path, which: str
) -> None:
    devices, case_id, place = LOST[which]
    here = kubernetes.place(tmp_path, slow_gang(devices))
    running = here.start()
    here.wait_for_window(case_id)
    kubernetes.delete(sorted((pod.node, pod.name) for pod in here.pods())[place][1])
    said, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, said
    assert here.statuses(case_id) == ["failed", "ok", "ok"]
    record = here.newest().case(case_id, 0).repeat(1) or {}
    assert record["reasons"][0]["code"] in {ReasonCode.POD_DELETED, ReasonCode.POD_ENDED}
    assert here.pods() == []


def test_ctrl_c_leaves_no_pod(kubernetes: Reached, tmp_path: Path) -> None:
    here = kubernetes.place(tmp_path, slow_gang())
    running = here.start()
    here.wait_for_window()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=LIMIT_S)
    assert here.outcome()["status"] == "cancelled"
    assert here.pods() == []


def test_cancel_ends_a_run_of_another_terminal(kubernetes: Reached, tmp_path: Path) -> None:
    here = kubernetes.place(tmp_path, slow_gang())
    running = here.start()
    here.wait_for_window()
    done = here.run("cancel", here.newest().run_id)
    assert done.returncode == 0, done.stderr
    running.communicate(timeout=LIMIT_S)
    assert here.outcome()["status"] == "cancelled"
    assert here.pods() == []


def test_cancel_deletes_the_pods_of_a_killed_run(kubernetes: Reached, tmp_path: Path) -> None:
    here = kubernetes.place(tmp_path, slow_gang())
    running = here.start()
    here.wait_for_window()
    running.kill()
    running.communicate(timeout=LIMIT_S)
    assert len(here.pods()) == 2
    done = here.run("cancel", here.newest().run_id)
    assert done.returncode == 0, done.stderr
    assert here.pods() == []
