"""Pods as nodes, against an API server that runs in this process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.gang.fake_kubernetes import (
    POLICY,
    FakeKubernetes,
    on,
    running,
    unschedulable,
    waiting,
)

from nightbench.core.model import (
    Cluster,
    JobSpec,
    Node,
    ReasonCode,
)
from nightbench.core.pod_manifests import NODE, label_value, rights
from nightbench.gang.errors import NodeUnreachable, PodError, faults_of
from nightbench.gang.kubernetes_api import PodTarget
from nightbench.gang.pod_states import PodState, has_to_yield, state_of
from nightbench.gang.pods import GangPods
from nightbench.gang.preflight import pod_preflight
from nightbench.gang.transport import shared_transport
from nightbench.nodes.pod_findings import pod_findings, quantity

pytest.importorskip("kubernetes_asyncio")


def test_all_pods_run_and_are_deleted(fake: FakeKubernetes, job: JobSpec) -> None:

    async def work(targets: dict[str, PodTarget]) -> JobSpec:
        pods = GangPods(job, targets)
        placed = await pods.create()
        assert await pods.create() == placed, "a second call creates nothing"
        assert set(await pods.running()) == {"n1", "n2"}
        await pods.delete()
        return placed

    placed = on(fake, work)
    assert [node.data_address for node in placed.nodes] == ["127.0.0.1", "127.0.0.1"]
    assert len(fake.created) == 2
    assert not fake.pods
    spec = fake.created[0]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert not spec["automountServiceAccountToken"]
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    assert spec["activeDeadlineSeconds"] == 12 * 3600


REFUSED = {
    "quota": (403, 'pods "x" is forbidden: exceeded quota: q', ReasonCode.QUOTA_EXCEEDED),
    "rights": (403, "pods is forbidden: User cannot create", ReasonCode.API_FORBIDDEN),
    "manifest": (422, "Pod is invalid", ReasonCode.API_REFUSED),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_has_its_reason(fake: FakeKubernetes, job: JobSpec, what: str) -> None:
    status, message, code = REFUSED[what]
    fake.refusal = (status, message)
    with pytest.raises(PodError) as refused:
        on(fake, lambda targets: GangPods(job, targets).create())
    assert (refused.value.code, message in str(refused.value)) == (code, True)
    assert faults_of(refused.value) == (), "the node is not at fault"


NEVER = {
    "image": (waiting("ImagePullBackOff", "no such image"), ReasonCode.POD_IMAGE),
    "config": (waiting("CreateContainerConfigError", "is root"), ReasonCode.POD_NOT_STARTED),
    "machine": (unschedulable("0/1 nodes are available"), ReasonCode.POD_UNSCHEDULABLE),
}


@pytest.mark.parametrize("what", NEVER)
def test_a_gang_starts_completely_or_not_at_all(
    fake: FakeKubernetes, job: JobSpec, what: str
) -> None:
    status, code = NEVER[what]
    fake.status_of = lambda pod: (
        status(pod) if pod["metadata"]["labels"][NODE] == "n2" else running(pod)
    )
    with pytest.raises(PodError) as never:
        on(fake, lambda targets: GangPods(job, targets).create())
    assert (never.value.code, never.value.node) == (code, "n2")
    assert len(fake.created) == 2
    assert not fake.pods


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
def test_files_and_commands(
    fake: FakeKubernetes, job: JobSpec, tmp_path: Path, protocol: str
) -> None:
    fake.protocol = protocol
    big = bytes(range(256)) * 10_000

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        node = shared_transport(targets["n1"].of_job(job.job_id))
        here = str(tmp_path / "files")
        assert await node.home() == str(tmp_path)
        await node.make_folders(f"{here}/a")
        assert [await node.mkdir(f"{here}/b"), await node.mkdir(f"{here}/b")] == [True, False]
        await node.write_atomic(f"{here}/a/x", big)
        assert await node.read(f"{here}/a/x") == big
        assert await node.read(f"{here}/a/none") is None
        assert await node.listdir(f"{here}/a") == ["x"]
        assert await node.listdir(f"{here}/none") == []
        assert not await node.rename(f"{here}/b", f"{here}/a")
        assert await node.rename(f"{here}/a/x", f"{here}/y")
        source = tmp_path / "source"
        source.write_bytes(big)
        await node.put_file(source, f"{here}/tool", 0o755)
        assert (tmp_path / "files/tool").stat().st_mode & 0o777 == 0o755
        with (tmp_path / "back").open("wb") as back:
            await node.get_file(f"{here}/tool", back, len(big))
        assert (tmp_path / "back").read_bytes() == big
        lines: list[str] = []
        words = ["sh", "-c", "echo out; echo err >&2; exit 3"]
        done = await node.run(words, on_stderr=lines.append, timeout_s=30)
        assert (done.exit, done.stdout, lines) == (3, b"out\n", ["err"])
        assert (await node.run(["no-such-program"], timeout_s=30)).exit == 127
        async with node.converse(["cat"]) as conversation:
            assert await conversation.ask("one") == "one"
        await node.close()

    on(fake, work)


def test_a_pod_that_is_gone_is_told_from_a_lost_stream(fake: FakeKubernetes, job: JobSpec) -> None:

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        node = shared_transport(targets["n1"].of_job(job.job_id))
        await node.exists("/")
        for status in (429, 500):
            fake.exec_error = (status, "the kubelet does not answer")
            with pytest.raises(NodeUnreachable, match="stream lost"):
                await node.run(["true"], timeout_s=30)
        fake.exec_error = None
        assert await node.exists("/")
        fake.pods.clear()
        for ask in (node.run(["true"], timeout_s=30), node.exists("/")):
            with pytest.raises(PodError) as gone:
                await ask
            assert gone.value.code is ReasonCode.POD_DELETED
        assert await GangPods(job, targets).running() == {}
        await node.close()

    on(fake, work)


def status(**given: Any) -> dict[str, Any]:
    marks = {"nightbench.io/node": "n1", "nightbench.io/job": "r/c/g0"}
    meta = {"name": "p", "uid": "u", "annotations": marks}
    meta["creationTimestamp"] = "2026-11-29T01:00:00Z"
    return {"metadata": meta, "spec": {}, "status": given}


def terminated(reason: str, code: int) -> list[dict[str, Any]]:
    state = {"terminated": {"reason": reason, "exitCode": code}}
    return [{"name": "node", "state": state}]


ENDS = {
    "memory": (
        status(phase="Failed", containerStatuses=terminated("OOMKilled", 137)),
        ReasonCode.POD_OUT_OF_MEMORY,
    ),
    "evicted": (
        status(phase="Failed", reason="Evicted", message="low on memory"),
        ReasonCode.POD_EVICTED,
    ),
    "preempted": (
        status(
            phase="Failed",
            conditions=[
                {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            ],
        ),
        ReasonCode.POD_PREEMPTED,
    ),
    "machine": (status(phase="Running", reason="NodeLost"), ReasonCode.MACHINE_LOST),
    "deadline": (status(phase="Failed", reason="DeadlineExceeded"), ReasonCode.POD_ENDED),
}


@pytest.mark.parametrize("what", ENDS)
def test_why_a_pod_ended(what: str) -> None:
    pod, code = ENDS[what]
    assert state_of(pod).end is code


def pod_state(
    job: str,
    node: str,
    minute: int,
    machine: str | None,
    *,
    gated: bool = False,
    grouped: bool = False,
) -> PodState:
    created = datetime(2026, 11, 29, tzinfo=UTC) + timedelta(minutes=minute)
    return PodState(
        name=f"{job}-{node}",
        uid=f"{job}-{node}",
        node=node,
        job_id=job,
        created=created,
        machine=machine,
        address=None,
        group="",
        is_grouped=grouped,
        is_gated=gated,
        is_running=False,
        waits="",
        end=None,
        why="",
    )


def test_the_older_of_two_gangs_that_wait_goes_first() -> None:
    old = [pod_state("old", "n1", 0, "m1"), pod_state("old", "n2", 0, None)]
    new = [pod_state("new", "n2", 1, "m2"), pod_state("new", "n1", 1, None)]
    both = [*old, *new]
    assert has_to_yield(new, both, pinned=False) == "old"
    assert has_to_yield(old, both, pinned=False) is None
    apart = [pod_state("new", "n3", 1, None)]
    assert has_to_yield(apart, [*old, *apart], pinned=True) is None
    assert has_to_yield(apart, [*old, *apart], pinned=False) == "old"
    queued = [pod_state("old", "n2", 0, None, gated=True)]
    assert has_to_yield(new, [*queued, *new], pinned=False) is None, "Kueue has not admitted it"


def test_a_pod_group_without_machines_blocks_no_other_gang() -> None:
    old = [pod_state("old", node, 0, None, grouped=True) for node in ("n1", "n2")]
    new = [pod_state("new", node, 1, None, grouped=True) for node in ("n1", "n2")]
    plain = [pod_state("plain", node, 1, None) for node in ("n1", "n2")]
    assert has_to_yield(new, [*old, *new], pinned=False) is None
    assert has_to_yield(plain, [*old, *plain], pinned=False) is None
    # A scheduler without the feature gate gives machines one by one.
    some = [pod_state("old", "n1", 0, "m1", grouped=True), old[1]]
    assert has_to_yield(plain, [*some, *plain], pinned=False) == "old"


def test_the_preflight_names_what_is_denied_and_a_quota_that_is_full(fake: FakeKubernetes) -> None:
    fake.denied = {"create pods/exec"}
    full = {"pods": "2"}
    fake.quotas = [{"metadata": {"name": "q"}, "status": {"hard": full, "used": full}}]
    cluster = Cluster("pods", (Node("n1", "n1", ""),), kubernetes=POLICY)
    (seen,) = on(fake, lambda targets: pod_preflight(cluster, targets))
    assert seen.api is not None
    found = {each.what: each.found for each in pod_findings(seen.api, cluster)}
    assert found == {
        "rights": "denied in namespace default: create pods/exec",
        "quota": "q: pods 2 of 2 used",
        "version": "v1.20.2",
    }


def test_rights_are_no_wider_than_what_is_asked(fake: FakeKubernetes, job: JobSpec) -> None:
    role, binding, network = rights("pods", POLICY, "nightbench")
    assert [each["kind"] for each in (role, binding, network)] == [
        "Role",
        "RoleBinding",
        "NetworkPolicy",
    ]
    cluster = Cluster("pods", (Node("n1", "n1", ""),), kubernetes=POLICY)

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        node = shared_transport(targets["n1"].of_job(job.job_id))
        await node.run(["true"], timeout_s=30)
        await GangPods(job, targets).delete()
        with pytest.raises(PodError, match="is gone"):
            await node.run(["true"], timeout_s=30)
        await pod_preflight(cluster, targets)

    on(fake, work)
    granted = {(verb, r["resources"][0]) for r in role["rules"] for verb in r["verbs"]}
    # Since Kubernetes 1.35 a command in a pod needs another verb.
    assert granted == fake.asked | {("create", "pods/exec")}


def test_quantities_and_labels() -> None:
    assert [quantity(each) for each in ("2", "500m", "5Gi", "3k")] == [2, 0.5, 5 * 2**30, 3000]
    long = "x" * 80
    assert label_value("a.b-c") == "a.b-c"
    assert len(label_value(long)) <= 63
    assert label_value(long) != label_value(long + "y")
