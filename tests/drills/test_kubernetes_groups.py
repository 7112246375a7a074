"""Gangs as PodGroups: the scheduler gives machines to all pods of a gang or to none.

A cluster that serves no PodGroups skips the drill; one of 1.36 is started with them.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest
from tests.drills.kubernetes.cluster import Kubernetes
from tests.drills.kubernetes.pods import (
    CLUSTER,
    LIMIT_S,
    MACHINES,
    Reached,
    namespace,
    slow_gang,
)

from nightbench.gang.kubernetes_api import ApiAccess, opened_api

pytestmark = pytest.mark.timeout(900)

GROUPED = CLUSTER.replace("pinned: false", "pinned: false\n  pod_groups: true")
ALONE = GROUPED.replace("shared: true", "shared: false")
"""One pod a machine; the drill's Kubernetes has two machines."""
THREE = ALONE.replace("pod[1-2]", "pod[1-3]")


@pytest.fixture
def own(kubernetes: Reached) -> Kubernetes:
    async def served() -> str | None:
        async with opened_api(ApiAccess("drill", path=kubernetes.kubeconfig)) as api:
            return await api.pod_groups()

    own = kubernetes.mine()
    if asyncio.run(served()) is None:
        pytest.skip(f"Kubernetes {own.version} has no PodGroups")
    return own


def groups(own: Kubernetes) -> list[str]:
    return own.kubectl("get", "podgroups", "-o", "name").split()


def no_groups(own: Kubernetes) -> None:
    """Kubernetes deletes them some time after the pods."""

    def none_left() -> None:
        if left := groups(own):
            raise RuntimeError(left)

    own.until(none_left, "end of PodGroups")


def test_a_gang_runs_as_a_pod_group_and_a_lost_pod_is_replaced(
    kubernetes: Reached, own: Kubernetes, tmp_path: Path
) -> None:
    here = kubernetes.place(tmp_path, slow_gang(), GROUPED)
    running = here.start()
    here.wait_for_window()
    assert len(groups(own)) == 1
    assert len({pod.group for pod in here.pods() if pod.is_grouped}) == 1
    kubernetes.delete(here.pods()[0].name)
    said, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, said
    assert here.statuses() == ["failed", "ok", "ok"]
    assert here.pods() == []
    no_groups(own)


@pytest.mark.parametrize("second", [ALONE, MACHINES], ids=["grouped", "plain"])
def test_a_gang_that_does_not_fit_has_no_machine(
    kubernetes: Reached, own: Kubernetes, tmp_path: Path, second: str
) -> None:
    large = kubernetes.place(tmp_path / "large", slow_gang("3x1"), THREE)
    small = kubernetes.place(tmp_path / "small", slow_gang(repeats=1), second)
    waiting = large.start()
    until_s = time.monotonic() + LIMIT_S
    while not groups(own) and time.monotonic() < until_s:
        time.sleep(0.2)
    assert len(large.pods()) == 3
    running = small.start()
    machines = set()
    while running.poll() is None:
        machines |= {pod.machine for pod in large.pods()}
        time.sleep(0.5)
    said, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, said
    assert small.statuses() == ["ok"]
    assert machines == {None}, "the larger gang has waited without any machine"
    waiting.send_signal(signal.SIGINT)
    said, _ = waiting.communicate(timeout=LIMIT_S)
    assert large.pods() == [], said
    no_groups(own)


def test_two_gangs_run_one_after_the_other_with_the_printed_rights(
    kubernetes: Reached, own: Kubernetes, tmp_path: Path
) -> None:
    cluster = namespace(own, "grouped", ALONE)
    own.kubectl("-n", "grouped", "create", "serviceaccount", "nightbench")
    admin = kubernetes.place(tmp_path / "admin", cluster=cluster)
    own.kubectl("apply", "-f", "-", stdin=admin.run("cluster", "manifests", "local").stdout)
    account = tmp_path / "kubeconfig"
    own.write_kubeconfig(account, own.token_of("grouped", "nightbench"))
    limited = Reached(str(account), kubernetes.image, own)
    places = [limited.place(tmp_path / each, slow_gang(repeats=1), cluster) for each in "ab"]

    said = places[0].run("doctor", "local").stdout
    assert f"v{own.version}" in said
    assert "denied" not in said, said
    assert "PodGroups" not in said, said
    runs = [here.start() for here in places]
    for here, running in zip(places, runs, strict=True):
        said, _ = running.communicate(timeout=LIMIT_S)
        assert running.returncode == 0, said
        assert here.statuses() == ["ok"]
    assert own.kubectl("-n", "grouped", "get", "pods", "-o", "name") == ""
