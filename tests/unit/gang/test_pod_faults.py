"""An API server that fails, pods that others delete, and the pods of what ends by an error."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.gang.fake_kubernetes import (
    CLUSTER,
    POLICY,
    FakeKubernetes,
    on,
    running,
    unschedulable,
)

from nightbench.core.model import CaseStatus, JobSpec, KubernetesPolicy, ReasonCode
from nightbench.gang import case_runner, cleanup, pods, provisioning
from nightbench.gang.errors import GangError, NodeUnreachable, PodError, Superseded
from nightbench.gang.kubernetes_api import PodTarget
from nightbench.gang.pods import GangPods
from nightbench.gang.shipping import Shipment
from nightbench.spool import Spool

pytest.importorskip("kubernetes_asyncio")
pytestmark = pytest.mark.usefixtures("quick")


# --- the API server --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_server_that_is_away_for_a_moment_is_asked_again(
    fake: FakeKubernetes, job: JobSpec, method: str
) -> None:
    fake.failures[method] = [503, 429, 500]

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        assert len(fake.pods) == 2
        await GangPods(job, targets).delete()

    on(fake, work)
    assert (fake.failures[method], fake.pods) == ([], {})


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_server_that_stays_away_is_a_node_that_does_not_answer(
    fake: FakeKubernetes, job: JobSpec, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(pods, "AWAY_S", 0.05)
    fake.failures[method] = [503] * 1000

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        await GangPods(job, targets).delete()

    with pytest.raises(NodeUnreachable, match="503 not now"):
        on(fake, work)


def test_a_server_whose_name_has_no_address_is_a_node_that_does_not_answer(
    fake: FakeKubernetes, job: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "AWAY_S", 0.05)

    async def work(targets: dict[str, PodTarget]) -> None:
        text = (targets["n1"].access.text or "").replace("127.0.0.1", "no-such-host.invalid")
        unknown = dataclasses.replace(targets["n1"].access, text=text)
        lost = {name: dataclasses.replace(each, access=unknown) for name, each in targets.items()}
        await GangPods(job, lost).create()

    with pytest.raises(NodeUnreachable, match=r"no-such-host\.invalid"):
        on(fake, work)


# --- pods that are deleted -------------------------------------------------------------------


def test_a_pod_that_others_delete_before_it_runs_is_not_created_again(
    fake: FakeKubernetes, job: JobSpec
) -> None:
    fake.status_of = unschedulable("0/1 nodes are available")

    async def work(targets: dict[str, PodTarget]) -> None:
        creating = asyncio.create_task(GangPods(job, targets).create())
        while len(fake.created) < 2:
            await asyncio.sleep(0.01)
        del fake.pods[fake.created[0]["metadata"]["name"]]
        await creating

    with pytest.raises(PodError) as deleted:
        on(fake, work)
    assert deleted.value.code is ReasonCode.POD_DELETED
    assert len(fake.created) == 2
    assert not fake.pods


def test_the_successor_of_a_pod_that_is_gone_has_another_name(
    fake: FakeKubernetes, job: JobSpec
) -> None:
    """By its name a controller knows that it has to open the new pod."""

    async def work(targets: dict[str, PodTarget]) -> None:
        pods_of_job = GangPods(job, targets)
        await pods_of_job.create()
        before = await pods_of_job.running()
        del fake.pods[before["n2"]]
        await pods_of_job.create()
        after = await pods_of_job.running()
        assert after["n1"] == before["n1"]
        assert after["n2"] != before["n2"]

    on(fake, work)


def old(fake: FakeKubernetes, hours: float) -> None:
    for pod in fake.pods.values():
        created = datetime.now(UTC) - timedelta(hours=hours)
        pod["metadata"]["creationTimestamp"] = created.isoformat()


def test_pods_of_a_gang_that_still_waits_are_no_orphans(fake: FakeKubernetes, job: JobSpec) -> None:
    async def work(targets: dict[str, PodTarget]) -> None:
        patient = KubernetesPolicy(images=POLICY.images, wait_s=4 * 3600.0)
        waiting = {
            name: dataclasses.replace(each, policy=patient) for name, each in targets.items()
        }
        await GangPods(job, targets).create()
        old(fake, 3)
        for pod in fake.pods.values():
            pod["status"] = {"phase": "Pending"}
        assert await pods.remove_orphans(waiting) == {"n1": [], "n2": []}
        found = await pods.remove_orphans(targets)
        assert {name: len(names) for name, names in found.items()} == {"n1": 1, "n2": 1}

    on(fake, work)


def test_a_pod_that_its_controller_deletes_meanwhile_does_not_end_the_search(
    fake: FakeKubernetes, job: JobSpec
) -> None:
    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        old(fake, 3)
        first, second = fake.pods
        fake.pods[second]["status"] = {"phase": "Pending"}
        fake.before_exec = lambda pod: fake.pods.pop(first, None) and None
        found = await pods.remove_orphans(targets)
        assert (found["n1"], found["n2"], fake.pods) == ([], [second], {})

    on(fake, work)


# --- the end of a case or a run --------------------------------------------------------------


def test_cancelling_a_run_survives_a_controller_that_deletes_its_pods(
    fake: FakeKubernetes, job: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "CONTROLLER_ENDS_S", 0.1)

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        fake.before_exec = lambda pod: fake.pods.clear()
        report = await cleanup.cancel_run(job.run_id, CLUSTER, targets)
        assert report.stopped == {}

    on(fake, work)


def test_cancelling_a_run_deletes_its_pods_also_if_one_refuses(
    fake: FakeKubernetes, job: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "CONTROLLER_ENDS_S", 0.1)
    fake.exec_error = (403, "forbidden")

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        with pytest.raises(PodError, match="pods/exec"):
            await cleanup.cancel_run(job.run_id, CLUSTER, targets)

    on(fake, work)
    assert not fake.pods


def test_a_cancelled_case_has_an_outcome_though_its_pods_cannot_be_deleted(
    fake: FakeKubernetes, job: JobSpec, tmp_path: Path
) -> None:
    store = Spool(tmp_path / "spool").run(job.run_id).case("case")

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        fake.failures["DELETE"] = [403]
        await cleanup.cancel(job, targets, store=store)

    with pytest.raises(PodError, match="not now"):
        on(fake, work)
    assert (store.outcome() or {})["status"] == "cancelled"


def test_the_reason_of_a_case_is_not_that_its_pods_stay(fake: FakeKubernetes, job: JobSpec) -> None:
    fake.status_of = unschedulable("0/1 nodes are available")
    fake.failures["DELETE"] = [403]
    events: list[str] = []

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets, lambda event: events.append(str(event))).create()

    with pytest.raises(PodError, match="0/1 nodes") as late:
        on(fake, work)
    assert late.value.code is ReasonCode.POD_UNSCHEDULABLE
    assert "pods could not be deleted" in events[-1]


ENDS = {
    "error": (NodeUnreachable("n1", "default/n1", "the stream was lost"), 0),
    "another controller": (Superseded("another controller has claimed epoch 2"), 2),
}


@pytest.mark.parametrize("what", ENDS)
def test_pods_of_a_case_that_an_error_ends_are_deleted(
    fake: FakeKubernetes,
    job: JobSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    error, left = ENDS[what]
    run = Spool(tmp_path / "spool").run(job.run_id)

    async def work(targets: dict[str, PodTarget]) -> None:
        async def prepare(*_: object, **more: object) -> None:
            await GangPods(job, targets).create()
            raise error

        monkeypatch.setattr(case_runner, "prepare", prepare)
        words = (job, run, targets, Shipment(tmp_path), lambda event: None)
        outcome = await case_runner._measure_case(*words)
        assert outcome.status is CaseStatus.FAILED

    on(fake, work)
    assert len(fake.pods) == left


@pytest.mark.parametrize("replacing", [True, False])
def test_a_replacement_that_is_cancelled_keeps_the_pods(
    fake: FakeKubernetes,
    job: JobSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    replacing: bool,
) -> None:
    monkeypatch.setattr(Shipment, "code_digest", lambda self: job.code_digest)
    fake.status_of = lambda pod: (
        running(pod) if len(fake.created) == 0 else unschedulable("no machine")(pod)
    )

    async def work(targets: dict[str, PodTarget]) -> None:
        words = (job, targets, Shipment(tmp_path))
        preparing = asyncio.create_task(provisioning.prepare(*words, replacing=replacing))
        while len(fake.created) < 2:
            await asyncio.sleep(0.01)
        preparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await preparing

    on(fake, work)
    assert len(fake.pods) == (2 if replacing else 0)


def test_an_error_of_a_preparation_deletes_the_pods(
    fake: FakeKubernetes, job: JobSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shipment, "code_digest", lambda self: job.code_digest)

    async def refuses(*_: object) -> None:
        raise GangError("no such framework")

    monkeypatch.setattr(provisioning, "_prepare_nodes", refuses)
    with pytest.raises(GangError, match="no such framework"):
        on(fake, lambda targets: provisioning.prepare(job, targets, Shipment(tmp_path)))
    assert len(fake.created) == 2
    assert not fake.pods
