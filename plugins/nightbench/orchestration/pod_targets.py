"""How pods are reached: from an Airflow Connection of type kubernetes.

The extra is that of the provider cncf.kubernetes: `in_cluster`, `kube_config_path`, `kube_config`,
`cluster_context`. Without any of them the user's own kubeconfig counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nightbench.core.errors import UserError
from nightbench.core.model import Cluster
from nightbench.orchestration.connections import PlainConnection

if TYPE_CHECKING:
    from nightbench.gang import PodTarget

FORMER = "extra__kubernetes__"
"""Prefix of the keys in Connections that older versions of the provider stored."""


def pod_targets(cluster: Cluster, connection: PlainConnection) -> dict[str, PodTarget]:
    """Return how the pod of each node of a cluster is reached, by the node's name.

    Raises:
        UserError: the Connection is not of type kubernetes, or does not verify the server.
    """
    from nightbench.gang import ApiAccess, PodTarget

    policy = cluster.kubernetes
    assert policy is not None, "the cluster has `kubernetes`"
    conn_id = policy.conn_id
    if (connection.conn_type or "kubernetes").lower() != "kubernetes":
        raise UserError(
            f"connection {conn_id}: found type {connection.conn_type!r}; expected kubernetes, for "
            f"cluster {cluster.name}"
        )
    extra = {key.removeprefix(FORMER): value for key, value in connection.extra.items() if value}
    if _is_true(extra, "disable_verify_ssl"):
        raise UserError(
            f"connection {conn_id}: found disable_verify_ssl; expected the server's certificate "
            "authority in the kubeconfig"
        )
    text, path = extra.get("kube_config"), extra.get("kube_config_path")
    access = ApiAccess(
        conn_id,
        in_cluster=_is_true(extra, "in_cluster"),
        path=os.path.expanduser(str(path)) if path else None,
        text=text if text is None or isinstance(text, str) else json.dumps(text),
        context=str(extra["cluster_context"]) if extra.get("cluster_context") else None,
    )
    python, shared = cluster.environments.python, cluster.shared
    return {
        node.name: PodTarget(node.name, access, policy, python, shared) for node in cluster.nodes
    }


def _is_true(extra: Mapping[str, Any], key: str) -> bool:
    return str(extra.get(key, "")).lower() in ("true", "1")
