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
    found = [pod(job, NODES[0], POLICY, 0, shared=shared), *rights("pods", POLICY, "nightbench")]
    for each in found:
        kubernetes_validate.validate(each, f"1.{minor}", strict=True)
