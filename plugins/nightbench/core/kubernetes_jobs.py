"""An exported run as objects of Kubernetes: a Job for each case, a pod for each node. Pure.

The pods of a case find each other by a headless service and share a volume, on which the run lies;
each runs the agent of its node (`agent.py run`), and the pod with index 0 leads.
"""

import dataclasses
import math
import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, JobSpec, KubernetesPolicy

MOUNT = "/nightbench"
"""Where pods see the volume; a run lies below it, in a folder of its id."""

RETRIES = 6
"""Pods of a Job that may fail: a machine is drained, an agent is killed. A repeat is the cost."""

GRACE_S = 90
"""Time in which an agent that is told to end has ended its processes."""

_NAME = "app.kubernetes.io/name"
_INSTANCE = "app.kubernetes.io/instance"
_Object = dict[str, Any]


def instance_of(run_id: str) -> str:
    """Return the name of a run's objects, which is a DNS label: `nb-demo-20261121t010203-9f3a`."""
    suite, began, unique = run_id.rsplit("-", 2)
    words = re.sub(r"[^a-z0-9]+", "-", suite.lower())[:24].strip("-")
    return f"nb-{words}-{began.lower()}-{unique}"


def job_name(run_id: str, number: int) -> str:
    """Return the name of the Job of a run's case, counted from 1."""
    return f"{instance_of(run_id)}-{number:03d}"


def for_pods(job: JobSpec, number: int) -> JobSpec:
    """Return a job of several nodes, at the names under which the headless service knows its pods.

    Its number in the run counts from 1.
    """
    if len(job.nodes) == 1:
        return job
    name, service = job_name(job.run_id, number), instance_of(job.run_id)
    nodes = [
        dataclasses.replace(node, data_address=f"{name}-{index}.{service}")
        for index, node in enumerate(job.nodes)
    ]
    return dataclasses.replace(job, nodes=tuple(nodes))


def objects(jobs: Sequence[JobSpec], cluster: Cluster) -> dict[str, _Object]:
    """Return file name -> object: the service, a pod to copy files by, and a Job for each case.

    Raises:
        UserError: the cluster has no section `kubernetes`, or no image for a line.
    """
    policy = cluster.kubernetes
    if policy is None:
        raise UserError(
            f"cluster {cluster.name}: found no section kubernetes; expected it with claim and "
            "images"
        )
    absent = sorted({job.build.line for job in jobs} - set(policy.images))
    if absent:
        raise UserError(
            f"cluster {cluster.name}: kubernetes.images: found none for {', '.join(absent)}; "
            f"expected an image that has {'it' if len(absent) == 1 else 'them'}"
        )
    run_id = jobs[0].run_id
    found = {
        "service.yaml": _service(run_id, policy),
        "files.yaml": _files(run_id, policy, cluster, policy.images[jobs[0].build.line]),
    }
    for number, job in enumerate(jobs, start=1):
        found[f"job-{number:03d}.yaml"] = _job(job, number, policy, cluster)
    return found


def _meta(name: str, run_id: str, policy: KubernetesPolicy) -> _Object:
    return {"name": name, "namespace": policy.namespace, "labels": _labels(run_id)}


def _labels(run_id: str) -> dict[str, str]:
    return {_NAME: "nightbench", _INSTANCE: instance_of(run_id)}


def _service(run_id: str, policy: KubernetesPolicy) -> _Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(instance_of(run_id), run_id, policy),
        "spec": {
            "clusterIP": "None",
            # A pod looks for the others before all of them run.
            "publishNotReadyAddresses": True,
            "selector": {_INSTANCE: instance_of(run_id)},
        },
    }


def _files(run_id: str, policy: KubernetesPolicy, cluster: Cluster, image: str) -> _Object:
    """Return a pod that does nothing: `kubectl cp` reads and writes the volume through it."""
    meta = _meta(f"{instance_of(run_id)}-files", run_id, policy)
    # It measures nothing: it keeps no pod off its machine, and no name of the service is its.
    meta["labels"] = {_NAME: "nightbench-files"}
    words = [cluster.environments.python, "-c", "import time; time.sleep(7 * 86400)"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            **_pod(policy),
            "containers": [{"name": "files", "image": image, "command": words, **_CONTAINER}],
        },
    }


def _job(job: JobSpec, number: int, policy: KubernetesPolicy, cluster: Cluster) -> _Object:
    name, run_id = job_name(job.run_id, number), job.run_id
    folder = posixpath.join(MOUNT, run_id)
    prefix = cluster.environments.paths.get(job.build.line)
    framework = posixpath.join(prefix, "bin/python") if prefix else cluster.environments.python
    words = [cluster.environments.python, "-u", f"{folder}/code/agent.py", "run", folder]
    words += ["--case", job.case.case_id, "--python", framework]
    quantities = _resources(job, policy)
    container = {
        "name": "agent",
        "image": policy.images[job.build.line],
        "command": words,
        "resources": {"requests": quantities, "limits": dict(quantities)},
        **_CONTAINER,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **_meta(name, run_id, policy),
            "annotations": {"nightbench/run": run_id, "nightbench/case": job.case.case_id},
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": len(job.nodes),
            "parallelism": len(job.nodes),
            "backoffLimit": RETRIES,
            # Never two agents of one node at once.
            "podReplacementPolicy": "Failed",
            **(
                {"activeDeadlineSeconds": math.ceil(policy.time_limit_s)}
                if policy.time_limit_s
                else {}
            ),
            "template": {
                "metadata": {"labels": _labels(run_id)},
                "spec": {
                    **_pod(policy),
                    "subdomain": instance_of(run_id),
                    "affinity": {"podAntiAffinity": _apart(shared=cluster.shared)},
                    "containers": [container],
                },
            },
        },
    }


_CONTAINER: _Object = {
    "env": [{"name": "HOME", "value": "/tmp"}],
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
    "volumeMounts": [
        {"name": "runs", "mountPath": MOUNT},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ],
}


def _pod(policy: KubernetesPolicy) -> _Object:
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
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
        "volumes": [
            {"name": "runs", "persistentVolumeClaim": {"claimName": policy.claim}},
            {"name": "tmp", "emptyDir": {}},
            # Ranks share memory; 64 MB, as engines give, are too little for that.
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _apart(*, shared: bool) -> _Object:
    """Keep pods that measure off each other's machines: always, or where there is room."""
    term = {
        "labelSelector": {"matchLabels": {_NAME: "nightbench"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    if shared:
        weighted = {"weight": 100, "podAffinityTerm": term}
        return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _resources(job: JobSpec, policy: KubernetesPolicy) -> dict[str, str]:
    """Return what a pod of a case requests: what its processes state, else the cluster's."""
    found = dict(policy.resources)
    most = max(Counter(process.node for process in job.processes).values())
    if job.case.cpus is not None:
        found["cpu"] = str(job.case.cpus * most)
    if job.case.memory_mb is not None:
        found["memory"] = f"{job.case.memory_mb * most}M"
    return found
