"""Gangs in a queue of Kueue: it admits all pods of a gang or none.

NIGHTBENCH_DRILL_KUEUE names a folder with Kueue; without it the drill is skipped.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.drills.kubernetes.cluster import Kubernetes
from tests.drills.kubernetes.kueue import KUEUE, QUEUE, Kueue
from tests.drills.kubernetes.pods import (
    CLUSTER,
    LIMIT_S,
    MACHINES,
    Place,
    Reached,
    namespace,
    slow_gang,
)

pytestmark = pytest.mark.timeout(900)

NAMESPACE = "queued"
LABELS = f"kubernetes:\n  labels: {{kueue.x-k8s.io/queue-name: {QUEUE}}}"
ALONE = CLUSTER.replace("shared: true", "shared: false")
THREE = CLUSTER.replace("pod[1-2]", "pod[1-3]").replace("wait: 2m", "wait: 30s")


@pytest.fixture(scope="module")
def own(kubernetes: Reached) -> Kubernetes:
    own = kubernetes.mine()
    if not KUEUE:
        pytest.skip("needs Kueue, built, in NIGHTBENCH_DRILL_KUEUE")
    namespace(own, NAMESPACE)
    return own


@pytest.fixture(scope="module")
def kueue(own: Kubernetes) -> Iterator[Kueue]:
    """A queue whose quota is that of one gang of two."""
    with Kueue(own, NAMESPACE, cpu="600m") as kueue:
        yield kueue


def queued(kubernetes: Reached, folder: Path, suite: str, cluster: str = ALONE) -> Place:
    """Return a terminal whose pods go through the queue."""
    text = cluster.replace("kubernetes:", f"{LABELS}\n  namespace: {NAMESPACE}")
    return kubernetes.place(folder, suite, text)


def pods(own: Kubernetes) -> list[dict[str, Any]]:
    """Return the pods of the namespace."""
    found = json.loads(own.kubectl("-n", NAMESPACE, "get", "pods", "-o", "json"))
    return list(found["items"])


def admitted(own: Kubernetes) -> int:
    """Return the number of pods that Kueue has admitted, without those that end."""
    alive = [pod for pod in pods(own) if "deletionTimestamp" not in pod["metadata"]]
    return sum(not pod["spec"].get("schedulingGates") for pod in alive)


def nothing_left(own: Kubernetes, kueue: Kueue) -> None:
    assert pods(own) == []

    def no_workload() -> None:
        if left := kueue.workloads():
            raise RuntimeError(left)

    own.until(no_workload, "end of workloads")


@pytest.mark.parametrize("cluster", [ALONE, MACHINES], ids=["any machine", "pinned"])
def test_two_gangs_are_admitted_one_after_the_other(
    kubernetes: Reached, own: Kubernetes, kueue: Kueue, tmp_path: Path, cluster: str
) -> None:
    places = [queued(kubernetes, tmp_path / each, slow_gang(repeats=1), cluster) for each in "ab"]
    runs = [here.start() for here in places]
    counts = set()
    while any(run.poll() is None for run in runs):
        counts.add(admitted(own))
        time.sleep(0.5)
    for here, running in zip(places, runs, strict=True):
        said, _ = running.communicate(timeout=LIMIT_S)
        assert running.returncode == 0, said
        assert here.statuses() == ["ok"]
    assert 2 in counts, counts
    assert max(counts) == 2, counts
    nothing_left(own, kueue)


def test_a_lost_pod_is_replaced_in_its_group(
    kubernetes: Reached, own: Kubernetes, kueue: Kueue, tmp_path: Path
) -> None:
    here = queued(kubernetes, tmp_path, slow_gang())
    running = here.start()
    here.wait_for_window()
    own.kubectl("-n", NAMESPACE, "delete", "pod", pods(own)[0]["metadata"]["name"], "--wait=false")
    said, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, said
    assert here.statuses() == ["failed", "ok", "ok"]
    nothing_left(own, kueue)


def test_a_gang_above_the_quota_is_never_admitted(
    kubernetes: Reached, own: Kubernetes, kueue: Kueue, tmp_path: Path
) -> None:
    here = queued(kubernetes, tmp_path, slow_gang("3x1", repeats=1), THREE)
    running = here.start()
    said, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode != 0, said
    assert "quota" in said, said
    nothing_left(own, kueue)


def test_a_cancelled_gang_leaves_the_queue(
    kubernetes: Reached, own: Kubernetes, kueue: Kueue, tmp_path: Path
) -> None:
    first = queued(kubernetes, tmp_path / "first", slow_gang(repeats=1))
    second = queued(kubernetes, tmp_path / "second", slow_gang(repeats=1))
    running = first.start()
    first.wait_for_window()
    waiting = second.start()
    until_s = time.monotonic() + LIMIT_S
    while len(pods(own)) < 4 and time.monotonic() < until_s:
        time.sleep(0.2)
    waiting.send_signal(signal.SIGINT)
    said, _ = waiting.communicate(timeout=LIMIT_S)
    assert len(pods(own)) == 2, said
    said, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, said
    nothing_left(own, kueue)
