"""Objects for Kubernetes, against the schemas of its versions."""

from __future__ import annotations

import kubernetes_validate
import pytest
from tests.jobs import sleeping_job

from nightbench.core.model import Cluster, KubernetesPolicy, Node
from nightbench.core.pod_manifests import pod, rights

NODES = (Node("n1", "host-1", ""), Node("n2", "host-2", ""))
POLICY = KubernetesPolicy(
    images={"fake": f"registry.example.org/fake@sha256:{'0' * 64}"},
    resources={"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "8", "hugepages-2Mi": "64Mi"},
    node_selector={"pool": "bench"},
    tolerations=("bench",),
    labels={"kueue.x-k8s.io/queue-name": "bench"},
    claims={"/data": "imagenet:ro"},
    pull_secrets=("registry",),
    priority_class="low",
    scheduler="volcano",
    service_account="bench",
)


@pytest.mark.parametrize("minor", range(25, 38))
@pytest.mark.parametrize("shared", [False, True])
def test_objects_are_valid_in_each_version_that_has_a_schema(minor: int, shared: bool) -> None:
    job = sleeping_job(Cluster("pods", NODES), nodes=2)
    made = pod(job, NODES[0], POLICY, "0a", "group", shared=shared)
    found = [made, *rights("pods", POLICY, "nightbench")]
    for each in found:
        kubernetes_validate.validate(each, f"1.{minor}", strict=True)


def test_several_pods_are_one_group_of_kueue_that_ends_with_them() -> None:
    """As Kueue's page "Run Plain Pods" has it; it makes a role of each pod of another shape."""
    cluster = Cluster("pods", NODES)
    job = sleeping_job(cluster, nodes=2)
    marks = [pod(job, node, POLICY, "0a", "nb-1", shared=False)["metadata"] for node in NODES]
    of_kueue = [
        {
            key: value
            for key, value in {**each["labels"], **each["annotations"]}.items()
            if "kueue" in key
        }
        for each in marks
    ]
    assert (
        of_kueue
        == [
            {
                "kueue.x-k8s.io/queue-name": "bench",
                "kueue.x-k8s.io/pod-group-name": "nb-1",
                "kueue.x-k8s.io/pod-group-total-count": "2",
                "kueue.x-k8s.io/role-hash": "node",
                "kueue.x-k8s.io/retriable-in-group": "false",
            }
        ]
        * 2
    )
    alone = pod(sleeping_job(cluster, nodes=1), NODES[0], POLICY, "0a", "nb-1", shared=False)
    assert "kueue.x-k8s.io/pod-group-name" not in alone["metadata"]["labels"]
    assert "sys.exit(143)" in alone["spec"]["containers"][0]["command"][-1]
