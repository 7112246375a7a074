"""Pods of a case, and the rights that creating them needs, as objects of Kubernetes. Pure.

A pod does nothing by itself: its first process waits and reaps. Agents are started in it as on any
node.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import JobSpec, KubernetesPolicy, Node

MOUNT = "/nightbench"
"""Home of the pods' user; a claim that is mounted here outlives the pod."""

GRACE_S = 30
"""Time in which an agent ends its processes after a request to stop."""

NAME = "app.kubernetes.io/name"
APP = "nightbench"
RUN, CASE, JOB, NODE = (f"nightbench.io/{each}" for each in ("run", "case", "job", "node"))
"""Labels of all objects; annotations of the same names have the texts in full."""

CONTAINER = "node"

KUEUE = "kueue.x-k8s.io/"
GROUP = f"{KUEUE}pod-group-name"

SCHEDULING = "scheduling.k8s.io"
"""API group of PodGroups."""

GATES = "Kubernetes 1.36 or newer, with the feature gates GenericWorkload and GangScheduling"
"""Requirement of PodGroups."""

NO_POD_GROUPS = "the API server has no PodGroups"

INIT = """\
import os, signal, sys
seen = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, seen)
while signal.sigwait(seen) == signal.SIGCHLD:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
sys.exit(143)
"""
"""First process of a pod: ends on SIGTERM, and reaps, so that a dead agent is seen as dead.

It never succeeds: Kueue would give a pod that succeeded no successor.
"""

RULES = (
    ("", "pods", ("create", "delete", "list")),
    ("", "pods/exec", ("create", "get")),
    ("", "events", ("list",)),
    ("", "resourcequotas", ("list",)),
)
"""API group, resource, verbs that each cluster needs in its namespace.

`pods/exec` takes `get` up to Kubernetes 1.34, and `create` since 1.35.
"""

_Object = dict[str, Any]


def label_value(text: str) -> str:
    """Return a label's value for a text: itself if it fits, else its beginning and a digest."""
    if re.fullmatch(r"[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?", text):
        return text
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", text)[:50].strip("-.")
    return f"{plain}-{_digest(text)}".lstrip("-")


def job_label(job_id: str) -> str:
    """Return the value of the label `JOB`."""
    return _digest(job_id)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def pod(
    job: JobSpec, node: Node, policy: KubernetesPolicy, serial: str, group: str, *, shared: bool
) -> _Object:
    """Return the pod of a node of a job.

    No other pod has its `serial`, which is lower-case; `group` is of several pods.

    Raises:
        UserError: the policy has no image for the job's line.
    """
    line = job.build.line
    if line not in policy.images:
        raise UserError(
            f"cluster {job.cluster}: kubernetes.images: found no image for {line}; expected an "
            "image that has Python"
        )
    plain = re.sub(r"[^a-z0-9]+", "-", node.name.lower())[:30].strip("-") or "node"
    quantities = _resources(job, policy)
    volumes, mounts = _volumes(policy)
    spec: _Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "activeDeadlineSeconds": math.ceil(policy.time_limit_s),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": policy.user,
            "runAsGroup": policy.user,
            "fsGroup": policy.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": dict(policy.node_selector),
        "tolerations": [{"key": key, "operator": "Exists"} for key in policy.tolerations],
        "affinity": _affinity(node, policy, shared=shared),
        "volumes": volumes,
        "containers": [
            {
                "name": CONTAINER,
                "image": policy.images[line],
                "imagePullPolicy": "IfNotPresent",
                "command": [job.environments.python, "-c", INIT],
                "env": [{"name": "HOME", "value": MOUNT}],
                "resources": {"requests": quantities, "limits": dict(quantities)},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "privileged": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": mounts,
            }
        ],
    }
    optional = {
        "schedulerName": policy.scheduler,
        "priorityClassName": policy.priority_class,
        "serviceAccountName": policy.service_account,
        "imagePullSecrets": [{"name": name} for name in policy.pull_secrets],
    }
    spec.update({key: value for key, value in optional.items() if value})
    if policy.pod_groups and len(job.nodes) > 1:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"nb-{job_label(job.job_id)}-{plain}-{serial}",
            "namespace": policy.namespace,
            **_marks(job, node, policy, group),
        },
        "spec": spec,
    }


def pod_group(
    job: JobSpec, policy: KubernetesPolicy, name: str, version: str, pods: Mapping[str, str]
) -> _Object:
    """Return the PodGroup of a job's pods (name -> UID). Kubernetes deletes it after the last pod.

    `version` is of the API.
    """
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid} for pod, uid in pods.items()
    ]
    return {
        "apiVersion": f"{SCHEDULING}/{version}",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": policy.namespace,
            "ownerReferences": owners,
            **_marks_of_job(job, policy),
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": len(pods)}}},
    }


def _marks_of_job(job: JobSpec, policy: KubernetesPolicy) -> _Object:
    labels = {
        **policy.labels,
        NAME: APP,
        RUN: label_value(job.run_id),
        CASE: label_value(job.case.case_id),
        JOB: job_label(job.job_id),
    }
    annotations = {RUN: job.run_id, CASE: job.case.case_id, JOB: job.job_id}
    return {"labels": labels, "annotations": annotations}


def _marks(job: JobSpec, node: Node, policy: KubernetesPolicy, group: str) -> _Object:
    marks = _marks_of_job(job, policy)
    labels, annotations = marks["labels"], marks["annotations"]
    labels[NODE], annotations[NODE] = label_value(node.name), node.name
    if f"{KUEUE}queue-name" in labels and len(job.nodes) > 1:
        labels[GROUP] = group
        annotations |= {
            f"{KUEUE}pod-group-total-count": str(len(job.nodes)),
            # Pods that name their machines would each be a role, of which Kueue takes 8.
            f"{KUEUE}role-hash": "node",
            # Kueue keeps the quota and the deleted pods of a group that it may retry.
            f"{KUEUE}retriable-in-group": "false",
        }
    return marks


def _affinity(node: Node, policy: KubernetesPolicy, *, shared: bool) -> _Object:
    """Bind a pod to its machine, and keep pods that measure off each other's machines."""
    found: _Object = {}
    if policy.pinned:
        named = {"key": "metadata.name", "operator": "In", "values": [node.host]}
        terms = {"nodeSelectorTerms": [{"matchFields": [named]}]}
        found["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    term = {
        "labelSelector": {"matchLabels": {NAME: APP}},
        "topologyKey": "kubernetes.io/hostname",
    }
    if shared:
        weighted = {"weight": 100, "podAffinityTerm": term}
        apart: _Object = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    else:
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {**found, "podAntiAffinity": apart}


def _resources(job: JobSpec, policy: KubernetesPolicy) -> dict[str, str]:
    """Return what a pod of a case requests: what its processes state, else the cluster's."""
    found = dict(policy.resources)
    most = max(Counter(process.node for process in job.processes).values())
    if job.case.cpus is not None:
        found["cpu"] = str(job.case.cpus * most)
    if job.case.memory_mb is not None:
        found["memory"] = f"{job.case.memory_mb * most}M"
    return found


def _volumes(policy: KubernetesPolicy) -> tuple[list[_Object], list[_Object]]:
    found: dict[str, _Object] = {
        MOUNT: {"emptyDir": {}},
        "/tmp": {"emptyDir": {}},
        # Ranks share memory; the 64 MB that engines give are too little for that.
        "/dev/shm": {"emptyDir": {"medium": "Memory"}},
    }
    for path, written in policy.claims.items():
        name, read_only = written.removesuffix(":ro"), written.endswith(":ro")
        claim: _Object = {"claimName": name, "readOnly": read_only}
        found[path] = {"persistentVolumeClaim": claim}
    volumes, mounts = [], []
    for number, (path, volume) in enumerate(found.items()):
        volumes.append({"name": f"v{number}", **volume})
        mounts.append({"name": f"v{number}", "mountPath": path})
    return volumes, mounts


# --- what a cluster's administrator grants ---------------------------------------------------


def rules(policy: KubernetesPolicy) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return API group, resource and verbs of all that Nightbench requests in the namespace."""
    return (*RULES, (SCHEDULING, "podgroups", ("create",))) if policy.pod_groups else RULES


def rights(cluster: str, policy: KubernetesPolicy, account: str) -> list[_Object]:
    """Return Role, RoleBinding and NetworkPolicy for a service account of the namespace."""
    name = f"nightbench-{cluster}".lower().replace("_", "-")
    group = "rbac.authorization.k8s.io"
    granted = [
        {"apiGroups": [g], "resources": [r], "verbs": list(verbs)} for g, r, verbs in rules(policy)
    ]
    bound = {
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": policy.namespace}],
    }
    # Pods of a gang reach each other, and nothing else reaches them.
    network = {
        "podSelector": {"matchLabels": {NAME: APP}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {NAME: APP}}}]}],
    }

    def made(version: str, kind: str, **rest: Any) -> _Object:
        meta = {"name": name, "namespace": policy.namespace, "labels": {NAME: APP}}
        return {"apiVersion": version, "kind": kind, "metadata": meta, **rest}

    return [
        made(f"{group}/v1", "Role", rules=granted),
        made(f"{group}/v1", "RoleBinding", **bound),
        made("networking.k8s.io/v1", "NetworkPolicy", spec=network),
    ]
