"""Gangs in pods while parts of a Kubernetes die, refuse, or have no room.

Each test has a namespace of its own where it changes rules, and the cluster is the drill's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.drills.kubernetes.cluster import Kubernetes
from tests.drills.kubernetes.pods import (
    CLUSTER,
    GANG,
    LIMIT_S,
    MACHINES,
    Place,
    Reached,
    namespace,
    slow_gang,
)
from tests.marks import marks

from nightbench.core.model import ReasonCode

pytestmark = pytest.mark.timeout(1200)

AWAY_S = 120.0
PART_AWAY_S = 40.0
GANG_ALONE = slow_gang(repeats=2)


@pytest.fixture
def own(kubernetes: Reached) -> Kubernetes:
    return kubernetes.mine()


def ended(here: Place, running: Any) -> str:
    """Wait for a run, of which nothing may be left; return what it printed."""
    said, _ = running.communicate(timeout=2 * LIMIT_S)
    assert here.pods() == [], said
    assert marks(here.newest().run_id) == {}, said
    return str(said)


@pytest.mark.parametrize(
    ("daemon", "away_s", "costs"),
    [("apiserver", AWAY_S, 1), ("kubelet-n1", PART_AWAY_S, 0), ("etcd", PART_AWAY_S, 0)],
)
def test_a_part_that_is_away_costs_at_most_one_repeat(
    kubernetes: Reached, own: Kubernetes, tmp_path: Path, daemon: str, away_s: float, costs: int
) -> None:
    here = kubernetes.place(tmp_path, slow_gang(), MACHINES)
    running = here.start()
    here.wait_for_window()
    own.kill(daemon)
    time.sleep(away_s)
    own.start(daemon)
    said = ended(here, running)
    assert running.returncode == 0, said
    print(f"  {daemon} away for {away_s:g} s: {here.statuses()}")
    assert here.statuses().count("ok") >= 3 - costs, said


URGENT = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 100000
---
apiVersion: v1
kind: Pod
metadata: {name: urgent}
spec:
  priorityClassName: urgent
  nodeSelector: {kubernetes.io/hostname: n1}
  restartPolicy: Never
  containers:
    - name: work
      image: "IMAGE"
      command: [sleep, "5"]
      resources: {requests: {cpu: CORES}}
"""
"""A pod that needs all of a machine for a moment."""


@contextlib.contextmanager
def removed(own: Kubernetes, image: str, how: str) -> Iterator[None]:
    """Let Kubernetes remove the pod on n1, and leave the cluster as it was."""
    urgent = URGENT.replace("IMAGE", image)
    urgent = urgent.replace("CORES", f"{1000 * (os.cpu_count() or 1) - 100}m")
    if how == "killed":
        own.hosts["n1"].run(["pkill", "-KILL", "-f", "sigwait"])
    if how == "tainted":
        own.kubectl("taint", "node", "n1", "drill=1:NoExecute")
        time.sleep(10.0)
        own.kubectl("taint", "node", "n1", "drill-")
    if how == "preempted":
        own.kubectl("apply", "-f", "-", stdin=urgent)
    yield
    if how == "preempted":
        own.kubectl("delete", "-f", "-", stdin=urgent)


REMOVED = {
    "killed": ReasonCode.POD_ENDED,
    "tainted": ReasonCode.POD_EVICTED,
    "preempted": ReasonCode.POD_PREEMPTED,
}


@pytest.mark.parametrize("how", REMOVED)
def test_a_pod_that_is_removed_costs_one_repeat_and_has_its_reason(
    kubernetes: Reached, own: Kubernetes, tmp_path: Path, how: str
) -> None:
    here = kubernetes.place(tmp_path, slow_gang(), MACHINES)
    running = here.start()
    here.wait_for_window()
    with removed(own, kubernetes.image, how):
        said = ended(here, running)
    assert running.returncode == 0, said
    assert here.statuses() == ["failed", "ok", "ok"]
    record = here.newest().case(GANG, 0).repeat(1) or {}
    assert record["reasons"][0]["code"] == REMOVED[how], record["reasons"]


def test_a_gang_that_never_fits_is_named_and_gone(
    kubernetes: Reached, own: Kubernetes, tmp_path: Path
) -> None:
    suite = GANG_ALONE.replace("devices: 2x1", "devices: 3x1")
    cluster = CLUSTER.replace("shared: true", "shared: false").replace("pod[1-2]", "pod[1-3]")
    here = kubernetes.place(tmp_path, suite, cluster.replace("wait: 2m", "wait: 20s"))
    running = here.start()
    said = ended(here, running)
    assert running.returncode != 0, said
    (reason,) = here.outcome("sleep-fake-collective-3x1-bs2-smoke")["reasons"]
    assert reason["code"] == ReasonCode.POD_UNSCHEDULABLE
    assert "0/2 nodes are available" in reason["observed"]


def test_two_runs_that_want_the_same_machines_take_turns(
    kubernetes: Reached, own: Kubernetes, tmp_path: Path
) -> None:
    places = [kubernetes.place(tmp_path / name, GANG_ALONE, MACHINES) for name in "ab"]
    runs = [here.start() for here in places]
    for here, running in zip(places, runs, strict=True):
        said, _ = running.communicate(timeout=2 * LIMIT_S)
        assert running.returncode == 0, said
        assert here.statuses() == ["ok", "ok"]
        assert here.pods() == []


def test_a_quota_that_is_too_small_is_named(
    kubernetes: Reached, own: Kubernetes, tmp_path: Path
) -> None:
    cluster = namespace(own, "small")
    own.kubectl("-n", "small", "create", "quota", "tight", "--hard=pods=1")
    here = kubernetes.place(tmp_path, GANG_ALONE, cluster)
    said = ended(here, here.start())
    (reason,) = here.outcome()["reasons"]
    assert reason["code"] == ReasonCode.QUOTA_EXCEEDED, said
    assert "tight" in reason["observed"]
    assert own.kubectl("-n", "small", "get", "pods", "-o", "name") == ""


def test_the_printed_rights_suffice_and_each_is_needed(
    kubernetes: Reached, own: Kubernetes, tmp_path: Path
) -> None:
    cluster = namespace(own, "bench")
    own.kubectl("-n", "bench", "create", "serviceaccount", "nightbench")
    admin = kubernetes.place(tmp_path / "admin", cluster=cluster)
    printed = admin.run("cluster", "manifests", "local", "--account", "nightbench")
    assert printed.returncode == 0, printed.stderr
    own.kubectl("apply", "-f", "-", stdin=printed.stdout)
    account = tmp_path / "kubeconfig"
    own.write_kubeconfig(account, own.token_of("bench", "nightbench"))
    limited = Reached(str(account), kubernetes.image, own)
    here = limited.place(tmp_path / "limited", cluster=cluster)

    done = here.run("run", "trial", "--direct")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {(row["n"], row["status"]) for row in here.rows()} == {(2, "ok")}
    healthy = here.run("doctor", "local").stdout
    assert "denied" not in healthy, healthy
    assert f"v{own.version}" in healthy, healthy

    role = next(each for each in yaml.safe_load_all(printed.stdout) if each["kind"] == "Role")
    granted = [(rule, verb) for rule in role["rules"] for verb in rule["verbs"]]
    assert len(granted) == 7
    for rule, verb in granted:
        left = [each for each in rule["verbs"] if each != verb]
        others = [each for each in role["rules"] if each is not rule]
        rules = [*others, *([{**rule, "verbs": left}] if left else [])]
        own.kubectl("apply", "-f", "-", stdin=json.dumps({**role, "rules": rules}))
        said = here.run("doctor", "local").stdout
        assert f"denied in namespace bench: {verb} {rule['resources'][0]};" in said, said
