"""What the drills of pods share: a terminal whose nodes are pods, and what its runs leave."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.command import COMMAND
from tests.drills.kubernetes.cluster import IMAGE, Kubernetes
from tests.integration.terminal import TRIAL, Terminal

from nightbench.core.pod_manifests import APP, NAME
from nightbench.gang.kubernetes_api import ApiAccess, opened_api
from nightbench.gang.pod_states import PodState, state_of

ONE, GANG = (f"sleep-fake-{each}-bs2-smoke" for each in ("collective-1x1", "collective-2x1"))
LIMIT_S = 300

CLUSTER = """\
cluster: local
shared: true
neighbours: {action: record}
nodes: [{hosts: "pod[1-2]"}]
kubernetes:
  images: {fake: "IMAGE"}
  pinned: false
  resources: {cpu: 300m, memory: 512Mi}
  wait: 2m
  time_limit: 1h
"""
"""Two pods, on any machines."""

MACHINES = CLUSTER.replace("shared: true", "shared: false").replace("pod[1-2]", "n[1-2]")
MACHINES = MACHINES.replace("pinned: false", "pinned: true")
"""One pod for each of the two machines."""


@dataclasses.dataclass(frozen=True)
class Reached:
    """A Kubernetes for drills."""

    kubeconfig: str
    image: str = IMAGE
    own: Kubernetes | None = None
    """None if KUBECONFIG names it: then no part of it is killed."""

    @property
    def connection(self) -> str:
        """The Airflow Connection to it."""
        extra = {"kube_config_path": self.kubeconfig}
        return json.dumps({"conn_type": "kubernetes", "extra": extra})

    def mine(self) -> Kubernetes:
        """Return the cluster that the drill has started; skip where there is none."""
        if self.own is None:
            pytest.skip("breaks a cluster: without KUBECONFIG it starts one of its own")
        return self.own

    def pods(self, of: str = "") -> list[PodState]:
        """Return the pods of Nightbench whose run begins so; others may use the namespace."""

        async def ask() -> list[PodState]:
            async with opened_api(ApiAccess("drill", path=self.kubeconfig)) as api:
                return [state_of(each) for each in await api.pods("default", {NAME: APP})]

        return [pod for pod in asyncio.run(ask()) if pod.job_id.startswith(of)]

    def delete(self, name: str) -> None:
        """Delete a pod."""

        async def ask() -> None:
            async with opened_api(ApiAccess("drill", path=self.kubeconfig)) as api:
                await api.delete_pod("default", name)

        asyncio.run(ask())

    def place(self, folder: Path, suite: str = TRIAL, cluster: str = CLUSTER, **more: str) -> Place:
        """Return a terminal whose cluster `local` is of pods."""
        text = cluster.replace("IMAGE", self.image)
        for name, content in (("suites/trial.yaml", suite), ("clusters/local.yaml", text)):
            path = folder / "dags" / name
            path.parent.mkdir(parents=True)
            path.write_text(content)
        connection = {"AIRFLOW_CONN_KUBERNETES_DEFAULT": self.connection}
        return Place(folder, {**connection, **more}, reached=self)


@dataclasses.dataclass(frozen=True)
class Place(Terminal):
    """A terminal whose nodes are pods."""

    reached: Reached = dataclasses.field(kw_only=True)

    def pods(self) -> list[PodState]:
        """Return the pods of the only run."""
        (run,) = self.spool.runs()
        return self.reached.pods(f"{run.run_id}/")

    def outcome(self, case_id: str = GANG) -> dict[str, Any]:
        """Return the outcome of a case of the newest run."""
        found = self.newest().case(case_id, 0).outcome()
        assert found is not None
        return found

    def statuses(self, case_id: str = GANG) -> list[str]:
        """Return the statuses of its repeats."""
        return [repeat["status"] for repeat in self.outcome(case_id)["repeats"]]

    def start(self) -> subprocess.Popen[str]:
        """Start a run."""
        environment = {**self.environment(), **self.more}
        return subprocess.Popen(
            [*COMMAND, "run", "trial", "--direct"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for_window(self, case_id: str = GANG) -> None:
        """Wait until a case is measured."""
        until_s = time.monotonic() + LIMIT_S
        while time.monotonic() < until_s:
            for run in self.spool.runs():
                if (run.case(case_id, 0).progress() or {}).get("phase") == "window":
                    return
            time.sleep(0.2)
        pytest.fail("no window opened")


def namespace(own: Kubernetes, name: str, cluster: str = CLUSTER) -> str:
    """Make an empty namespace; return a cluster's file for it."""
    own.kubectl("delete", "namespace", name, "--ignore-not-found")
    own.kubectl("create", "namespace", name)
    own.until(lambda: own.kubectl("-n", name, "get", "serviceaccount", "default"), "account")
    return cluster.replace("kubernetes:", f"kubernetes:\n  namespace: {name}")


def slow_gang(devices: str = "2x1", repeats: int = 3) -> str:
    """One case alone, with windows of some 30 s."""
    head, gang, _ = TRIAL.split("  - workload")
    head = head.replace("measured_steps: 20", "measured_steps: 3000")
    return f"{head}  - workload{gang}".replace("[1x1, 2x1]", devices).replace(
        "repeats: 2", f"repeats: {repeats}"
    )
