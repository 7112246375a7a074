"""Why a pod was deleted or does not start, where only the events of Kubernetes say so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.gang.fake_kubernetes import FakeKubernetes, on, running, waiting

from nightbench.core.model import JobSpec, ReasonCode
from nightbench.gang.errors import PodError, faults_of
from nightbench.gang.kubernetes_api import PodTarget
from nightbench.gang.pods import GangPods
from nightbench.gang.transport import shared_transport

pytest.importorskip("kubernetes_asyncio")
pytestmark = pytest.mark.usefixtures("quick")


def event(pod: str, second: int, reason: str, message: str, *, new: bool = False) -> dict[str, Any]:
    """An event as kubelet and controllers write it; `new`: as the scheduler does."""
    at = f"2026-11-29T01:00:{second:02d}"
    times = {"lastTimestamp": None, "eventTime": f"{at}.123456Z"}
    if not new:
        times = {"lastTimestamp": f"{at}Z", "eventTime": None}
    return {"involvedObject": {"name": pod}, "reason": reason, "message": message, **times}


KILLING = ("Killing", "Stopping container node")
TAINT = ("TaintManagerEviction", "Marking for deletion Pod bench/p")
DELETED = {
    "by a user": ([KILLING], ReasonCode.POD_DELETED, "it is gone"),
    "by a user, after its machine was away": (
        [("NodeNotReady", "Node is not ready"), KILLING],
        ReasonCode.POD_DELETED,
        "it is gone",
    ),
    "by the scheduler": (
        [("Preempted", "Preempted by bench/urgent on node n1"), KILLING],
        ReasonCode.POD_PREEMPTED,
        "Preempted by bench/urgent on node n1",
    ),
    "by a taint": ([TAINT, KILLING], ReasonCode.POD_EVICTED, TAINT[1]),
    "with its machine": (
        [("NodeNotReady", "Node is not ready"), TAINT],
        ReasonCode.MACHINE_LOST,
        TAINT[1],
    ),
}


@pytest.mark.parametrize("how", DELETED)
def test_a_deleted_pod_has_the_reason_of_its_events(
    fake: FakeKubernetes, job: JobSpec, how: str
) -> None:
    events, code, said = DELETED[how]

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        node = shared_transport(targets["n1"].of_job(job.job_id))
        await node.exists("/")
        names = (await GangPods(job, targets).running()).values()
        fake.events = [
            event(name, second, *each, new=each[0] == "Preempted")
            for name in names
            for second, each in enumerate([("Started", "Started container node"), *events])
        ][::-1]
        fake.pods.clear()
        with pytest.raises(PodError) as deleted:
            await node.run(["true"], timeout_s=30)
        assert (deleted.value.code, said in str(deleted.value)) == (code, True)
        assert bool(faults_of(deleted.value)) == (code is ReasonCode.MACHINE_LOST)
        await node.close()

    on(fake, work)


@pytest.mark.parametrize("denied", [False, True])
def test_a_pod_that_starts_late_has_its_newest_event(
    fake: FakeKubernetes, job: JobSpec, denied: bool
) -> None:
    fake.denied = {"list events"} if denied else set()

    def creating(pod: dict[str, Any]) -> dict[str, Any]:
        name = pod["metadata"]["name"]
        pod["spec"]["nodeName"] = "machine-1"
        fake.events += [
            event(name, 9, "Pulling", 'Pulling image "registry.example.org/fake:1"'),
            event(name, 8, "Scheduled", "Successfully assigned", new=True),
        ]
        return waiting("ContainerCreating", "")(pod)

    fake.status_of = creating
    with pytest.raises(PodError) as late:
        on(fake, lambda targets: GangPods(job, targets).create())
    assert late.value.code is ReasonCode.POD_NOT_STARTED
    said = "" if denied else '; Pulling: Pulling image "registry.example.org/fake:1"'
    assert late.value.message == f"ContainerCreating{said}"


def test_a_pod_that_no_scheduler_tries_to_place_is_named(
    fake: FakeKubernetes, job: JobSpec
) -> None:
    fake.status_of = lambda pod: {"phase": "Pending"}
    with pytest.raises(PodError, match="no scheduler answered") as never:
        on(fake, lambda targets: GangPods(job, targets).create())
    assert never.value.code is ReasonCode.POD_UNSCHEDULABLE


def test_a_pod_that_is_preempted_while_others_wait_has_the_reason(
    fake: FakeKubernetes, job: JobSpec
) -> None:
    fake.status_of = lambda pod: running(pod) if not fake.created else {"phase": "Pending"}

    async def work(targets: dict[str, PodTarget]) -> None:
        creating = asyncio.create_task(GangPods(job, targets).create())
        while len(fake.created) < 2:
            await asyncio.sleep(0.01)
        name = fake.created[0]["metadata"]["name"]
        fake.events = [event(name, 1, "Preempted", "by bench/urgent", new=True)]
        del fake.pods[name]
        await creating

    with pytest.raises(PodError, match="by bench/urgent") as preempted:
        on(fake, work)
    assert preempted.value.code is ReasonCode.POD_PREEMPTED
    assert not fake.pods
