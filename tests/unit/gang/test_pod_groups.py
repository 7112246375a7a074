"""Gangs as PodGroups of Kubernetes, against an API server that runs in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import kubernetes_validate
import pytest
from tests.jobs import sleeping_job
from tests.unit.gang.fake_kubernetes import CLUSTER, FakeKubernetes, on

from nightbench.core.model import Cluster, JobSpec, KubernetesPolicy, Node, ReasonCode
from nightbench.core.pod_manifests import pod, pod_group, rights
from nightbench.gang.errors import PodError
from nightbench.gang.kubernetes_api import POD_GROUPS, PodTarget
from nightbench.gang.pods import GangPods
from nightbench.gang.preflight import pod_preflight
from nightbench.nodes.pod_findings import pod_findings

pytest.importorskip("kubernetes_asyncio")
pytestmark = pytest.mark.usefixtures("quick")

POLICY = KubernetesPolicy(
    images={"fake": "registry.example.org/fake:1"}, wait_s=2.0, pod_groups=True
)


@pytest.fixture
def fake(fake: FakeKubernetes) -> FakeKubernetes:
    fake.pod_groups = {}
    return fake


def grouped(
    fake: FakeKubernetes, job: JobSpec, work: Callable[[GangPods], Awaitable[Any]]
) -> tuple[Any, dict[str, Any]]:
    """Return what `work` returns, and the PodGroups that were created."""

    async def of(targets: dict[str, PodTarget]) -> Any:
        mine = {name: dataclasses.replace(t, policy=POLICY) for name, t in targets.items()}
        return await work(GangPods(job, mine))

    return on(fake, of), fake.pod_groups or {}


def test_a_gang_is_one_pod_group_that_its_pods_own(fake: FakeKubernetes, job: JobSpec) -> None:
    _, groups = grouped(fake, job, lambda gang: gang.create())
    (group,) = groups.values()
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    owners = {(each["name"], each["uid"]) for each in group["metadata"]["ownerReferences"]}
    assert owners == {(p["metadata"]["name"], p["metadata"]["uid"]) for p in fake.created}
    named = {p["spec"]["schedulingGroup"]["podGroupName"] for p in fake.created}
    assert named == {group["metadata"]["name"]}
    assert group["metadata"]["annotations"]["nightbench.io/run"] == job.run_id


def test_a_replacement_joins_the_pod_group_and_a_new_gang_has_another(
    fake: FakeKubernetes, job: JobSpec
) -> None:
    async def work(gang: GangPods) -> None:
        await gang.create()
        del fake.pods[(await gang.running())["n2"]]
        await gang.create()
        await gang.delete()
        await gang.create()

    _, groups = grouped(fake, job, work)
    named = [p["spec"]["schedulingGroup"]["podGroupName"] for p in fake.created]
    assert [named.count(each) for each in groups] == [3, 2]


def test_pods_whose_controller_died_before_their_group_get_it(
    fake: FakeKubernetes, job: JobSpec
) -> None:
    async def work(gang: GangPods) -> None:
        await gang.create()
        (fake.pod_groups or {}).clear()
        for each in fake.pods.values():
            each["status"] = {"phase": "Pending"}
        await gang.create()

    _, groups = grouped(fake, job, work)
    assert len(groups) == 1
    assert len(fake.created) == 2


def test_one_pod_is_no_group(fake: FakeKubernetes) -> None:
    _, groups = grouped(fake, sleeping_job(CLUSTER, nodes=1), lambda gang: gang.create())
    assert groups == {}
    assert "schedulingGroup" not in fake.created[0]["spec"]


def test_a_server_without_pod_groups_gets_no_pods(fake: FakeKubernetes, job: JobSpec) -> None:
    fake.pod_groups = None
    with pytest.raises(PodError, match="has no PodGroups") as refused:
        grouped(fake, job, lambda gang: gang.create())
    assert refused.value.code is ReasonCode.API_REFUSED
    assert "GangScheduling" in refused.value.expected
    assert fake.created == []


@pytest.mark.parametrize("served", [True, False])
def test_the_preflight_names_feature_gates_that_are_not_set(
    fake: FakeKubernetes, served: bool
) -> None:
    fake.pod_groups = {} if served else None
    fake.denied = {"create podgroups"}
    cluster = Cluster("pods", (Node("n1", "n1", ""),), kubernetes=POLICY)

    async def work(targets: dict[str, PodTarget]) -> Any:
        mine = {name: dataclasses.replace(t, policy=POLICY) for name, t in targets.items()}
        return await pod_preflight(cluster, mine)

    (seen,) = on(fake, work)
    found = {each.what: each for each in pod_findings(seen.api, cluster)}
    assert "create podgroups" in found["rights"].found
    assert ("pod_groups" in found) is not served
    if not served:
        assert "GenericWorkload" in found["pod_groups"].expected


def test_the_role_has_one_more_right_only_with_the_key() -> None:
    plain = POLICY.model_copy(update={"pod_groups": False})
    without, more = (rights("pods", each, "nightbench")[0]["rules"] for each in (plain, POLICY))
    assert [each for each in more if each not in without] == [
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["create"]}
    ]


@pytest.mark.parametrize(("minor", "version"), [*zip((37, 36), POD_GROUPS, strict=True)])
def test_objects_are_valid_in_each_version_that_has_pod_groups(
    job: JobSpec, minor: int, version: str
) -> None:
    made = pod(job, job.nodes[0], POLICY, "0a", "nb-1", shared=False)
    group = pod_group(job, POLICY, "nb-1", version, {"a": "1", "b": "2"})
    for each in (made, group):
        kubernetes_validate.validate(each, f"1.{minor}", strict=True)
