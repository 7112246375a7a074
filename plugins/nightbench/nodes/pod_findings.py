"""Findings about a cluster whose nodes are pods, from what its API server says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nightbench.core.model import Cluster, FrameworkInfo
from nightbench.core.pod_manifests import GATES, NO_POD_GROUPS
from nightbench.nodes.node_preflight import Finding, fail, info, warn

OLDEST = (1, 20)

_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS |= {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGT", start=1)}


def quantity(text: str) -> float:
    """Return a quantity of Kubernetes as a number: `500m` is 0.5, `5Gi` 5368709120."""
    found = re.fullmatch(r"([\d.]+)([a-zA-Z]*)", text)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{text!r} is no quantity")
    return float(found[1]) * _UNITS[found[2]]


def pod_findings(
    api: Mapping[str, Any], cluster: Cluster, lines: Iterable[FrameworkInfo] = ()
) -> Iterator[Finding]:
    """Yield findings about rights, quota, version, and lines without an image."""
    policy = cluster.kubernetes
    assert policy is not None, "the cluster has `kubernetes`"
    if api["denied"]:
        yield fail(
            "rights",
            f"denied in namespace {policy.namespace}: {', '.join(api['denied'])}",
            "all rights of the Role that `cluster manifests` prints",
            f"apply what `nightbench cluster manifests {cluster.name}` prints",
        )
    if api.get("no_pod_groups"):
        yield fail(
            "pod_groups",
            NO_POD_GROUPS,
            GATES,
            "set both gates in API server, controller manager and scheduler, and "
            "`--runtime-config=scheduling.k8s.io/v1alpha2=true` in the API server; or remove "
            "kubernetes.pod_groups",
        )
    wanted = {**policy.resources, "pods": "1"}
    for quota in api["quotas"]:
        for name, hard in quota["hard"].items():
            plain = name.removeprefix("requests.").removeprefix("limits.")
            if plain not in wanted:
                continue
            left = quantity(hard) - quantity(quota["used"].get(name, "0"))
            if left < quantity(wanted[plain]):
                yield warn(
                    "quota",
                    f"{quota['name']}: {name} {quota['used'].get(name, '0')} of {hard} used",
                    f"{wanted[plain]} free for one pod",
                    "delete pods that use the quota (`nightbench clean` removes pods without a "
                    "run), or raise the quota",
                )
    without = sorted(each.line for each in lines if each.line not in policy.images)
    if without:
        yield info(
            "images",
            f"none for {', '.join(without)}",
            "an image for each line that runs on the cluster (kubernetes.images)",
            "cases of these lines are unavailable: name an image, or leave the lines out",
        )
    version = tuple(map(int, re.findall(r"\d+", api["version"])[:2]))
    # A server that was built without a version reports 0.0.
    if (0, 0) < version < OLDEST:
        yield warn("version", api["version"], "1.20 or newer", "upgrade the API server")
    else:
        yield info("version", api["version"], "1.20 or newer", "nothing to do")
