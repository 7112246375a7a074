"""Preflight of a cluster whose nodes are pods: what the API server says before there is a pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nightbench.core.model import Cluster, KubernetesPolicy, Reason
from nightbench.core.pod_manifests import rules
from nightbench.gang.errors import GangError, reason_of
from nightbench.gang.kubernetes_api import KubernetesApi, opened_api
from nightbench.gang.pod_transport import PodTarget, node_errors
from nightbench.nodes import NodePreflight
from nightbench.spool import utc_now

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def pod_preflight(cluster: Cluster, targets: Mapping[str, PodTarget]) -> list[NodePreflight]:
    """Examine rights, quota and version once, as the preflight of each node of a cluster."""
    first = targets[cluster.nodes[0].name]
    document: dict[str, Any] | None = None
    reason: Reason | None = None
    try:
        with node_errors(first):
            async with opened_api(first.access) as api:
                document = await _examine(api, first.policy)
    except GangError as error:
        reason = reason_of(error)
    return [
        NodePreflight(
            node.name,
            targets[node.name].address,
            utc_now(),
            reachable=document is not None,
            problem=reason and replace(reason, node=node.name),
            api=document,
        )
        for node in cluster.nodes
    ]


async def _examine(api: KubernetesApi, policy: KubernetesPolicy) -> dict[str, Any]:
    """Return version, denied rights, the namespace's quotas, and whether PodGroups are missing."""
    namespace = policy.namespace
    version = await api.request("GET", "/version")
    denied = []
    for group, resource, verbs in rules(policy):
        name, _, subresource = resource.partition("/")
        for verb in verbs:
            asked = {"namespace": namespace, "verb": verb, "group": group, "resource": name}
            spec = {"resourceAttributes": {**asked, "subresource": subresource}}
            kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
            answer = await api.request("POST", REVIEWS, body={**kind, "spec": spec})
            if not answer["status"]["allowed"]:
                denied.append(f"{verb} {resource}")
    quotas = []
    if "list resourcequotas" not in denied:
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        for quota in (await api.request("GET", path))["items"]:
            status = quota.get("status") or {}
            quotas.append(
                {
                    "name": quota["metadata"]["name"],
                    "hard": status.get("hard") or {},
                    "used": status.get("used") or {},
                }
            )
    found = {"version": version["gitVersion"], "denied": denied, "quotas": quotas}
    return {**found, "no_pod_groups": policy.pod_groups and await api.pod_groups() is None}
