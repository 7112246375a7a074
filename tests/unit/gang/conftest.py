"""A bench or a Kubernetes for each test."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.jobs import sleeping_job
from tests.unit.gang.bench import Bench, inline
from tests.unit.gang.fake_kubernetes import CLUSTER, FakeKubernetes
from tests.unit.gang.simulated import VirtualLoop

from nightbench.core.model import JobSpec
from nightbench.gang import pods


@pytest.fixture
def bench(tmp_path, monkeypatch):
    loop = VirtualLoop()
    monkeypatch.setattr("asyncio.to_thread", inline)
    yield Bench(loop, tmp_path)
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(1))
    loop.close()


@pytest.fixture
def fake(tmp_path: Path) -> FakeKubernetes:
    return FakeKubernetes(tmp_path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods are asked for without pauses."""
    monkeypatch.setattr(pods, "POLL_S", 0.01)


@pytest.fixture
def job() -> JobSpec:
    """A job on the nodes of `CLUSTER`."""
    return sleeping_job(CLUSTER, nodes=2)
