"""State of a pod, and the reason of its end, from its document in the API. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nightbench.core.model import ReasonCode
from nightbench.core.pod_manifests import CONTAINER, GROUP, JOB, NODE

NO_IMAGE = frozenset({"ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"})
"""A first `ErrImagePull` may pass; the kubelet backs off after it."""

NOT_STARTED = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})

_BY_REASON = {
    "Evicted": ReasonCode.POD_EVICTED,
    "TerminationByKubelet": ReasonCode.POD_EVICTED,
    "EvictionByEvictionAPI": ReasonCode.POD_EVICTED,
    "Preempting": ReasonCode.POD_PREEMPTED,
    "Preempted": ReasonCode.POD_PREEMPTED,
    "PreemptionByScheduler": ReasonCode.POD_PREEMPTED,
    "NodeLost": ReasonCode.MACHINE_LOST,
    "NodeShutdown": ReasonCode.MACHINE_LOST,
    "Shutdown": ReasonCode.MACHINE_LOST,
    "Terminated": ReasonCode.MACHINE_LOST,
    "DeletionByTaintManager": ReasonCode.POD_EVICTED,
    "DeletionByPodGC": ReasonCode.MACHINE_LOST,
}


@dataclass(frozen=True)
class PodState:
    """One pod."""

    name: str
    uid: str
    node: str
    """The node of the job that it is."""
    job_id: str
    created: datetime
    machine: str | None
    """Name of its Kubernetes node; None before it has one."""
    address: str | None
    """Its IP address."""
    group: str
    """Its PodGroup, or its pod group in Kueue; empty if it has none."""
    is_grouped: bool
    """The scheduler gives it a machine only with all pods of its PodGroup."""
    is_gated: bool
    """Kueue has not admitted it: it competes for no machine."""
    is_running: bool
    waits: str
    """Why it does not run yet; empty if that is not known."""
    end: ReasonCode | None
    """Why it never runs, or runs no more; None while it may."""
    why: str
    """The words of Kubernetes about `end`."""

    @property
    def competes(self) -> bool:
        """Whether the scheduler seeks a machine for it."""
        return self.machine is None and self.end is None and not self.is_gated


def state_of(pod: Mapping[str, Any]) -> PodState:
    """Return the state of a pod of Nightbench."""
    meta, status = pod["metadata"], pod.get("status") or {}
    container = _container(status)
    waiting = container.get("state", {}).get("waiting") or {}
    end, why = _end(meta, status, container)
    scheduled = _condition(status, "PodScheduled")
    spec = pod.get("spec") or {}
    pod_group = (spec.get("schedulingGroup") or {}).get("podGroupName", "")
    waits = ""
    if scheduled.get("status") == "False":
        waits = str(scheduled.get("message") or scheduled.get("reason") or "")
    elif waiting:
        waits = f"{waiting.get('reason', '')}: {waiting.get('message', '')}".strip(": ")
    running = container.get("state", {}).get("running") is not None
    return PodState(
        name=meta["name"],
        uid=meta["uid"],
        node=meta["annotations"][NODE],
        job_id=meta["annotations"][JOB],
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        machine=spec.get("nodeName"),
        address=status.get("podIP"),
        group=pod_group or (meta.get("labels") or {}).get(GROUP, ""),
        is_grouped=bool(pod_group),
        is_gated=scheduled.get("reason") == "SchedulingGated",
        is_running=running and end is None and bool(status.get("podIP")),
        waits=waits,
        end=end,
        why=why,
    )


def _end(
    meta: Mapping[str, Any], status: Mapping[str, Any], container: Mapping[str, Any]
) -> tuple[ReasonCode | None, str]:
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    disruption = _condition(status, "DisruptionTarget")
    if disruption.get("status") == "True":
        reason = str(disruption.get("reason") or reason)
        message = message or str(disruption.get("message") or "")
    said = f"{reason}: {message}".strip(": ")
    if reason in _BY_REASON:
        return _BY_REASON[reason], said
    ended = container.get("state", {}).get("terminated")
    if ended:
        how = f"{ended.get('reason', '')}, exit code {ended.get('exitCode')}".strip(", ")
        if ended.get("reason") == "OOMKilled":
            return ReasonCode.POD_OUT_OF_MEMORY, how
        if not meta.get("deletionTimestamp"):
            return ReasonCode.POD_ENDED, said or how
    if meta.get("deletionTimestamp"):
        return ReasonCode.POD_DELETED, f"at {meta['deletionTimestamp']}"
    if status.get("phase") in ("Failed", "Succeeded"):
        return ReasonCode.POD_ENDED, said or str(status["phase"])
    waiting = container.get("state", {}).get("waiting") or {}
    why = str(waiting.get("message") or waiting.get("reason") or "")
    if waiting.get("reason") in NO_IMAGE:
        return ReasonCode.POD_IMAGE, why
    if waiting.get("reason") in NOT_STARTED:
        return ReasonCode.POD_NOT_STARTED, why
    return None, ""


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found: list[Mapping[str, Any]] = status.get("containerStatuses") or []
    return next((each for each in found if each["name"] == CONTAINER), {})


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found: list[Mapping[str, Any]] = status.get("conditions") or []
    return next((each for each in found if each["type"] == kind), {})


def code_of_refusal(status: int, message: str) -> ReasonCode:
    """Return why the API server refuses a request: quota and rights share a status."""
    if status == 403 and "exceeded quota" in message:
        return ReasonCode.QUOTA_EXCEEDED
    return ReasonCode.API_FORBIDDEN if status in (401, 403) else ReasonCode.API_REFUSED


def has_to_yield(mine: list[PodState], others: list[PodState], *, pinned: bool) -> str | None:
    """Return the job of an older gang that also waits for machines, which goes first; or None.

    Without an order two gangs might hold a part of the machines each. Pods that are pinned compete
    for their own machines alone; a PodGroup that has no machine holds none.
    """

    def waits(pods: list[PodState]) -> bool:
        partly = any(pod.machine for pod in pods)
        return any(pod.competes and (partly or not pod.is_grouped) for pod in pods)

    if not waits(mine):
        return None

    def age(pods: list[PodState]) -> tuple[datetime, str]:
        return min((pod.created, pod.job_id) for pod in pods)

    wanted = {pod.node for pod in mine}
    gangs: dict[str, list[PodState]] = {}
    for pod in others:
        if pod.end is None:
            gangs.setdefault(pod.job_id, []).append(pod)
    rivals = [
        pods
        for job_id, pods in gangs.items()
        if job_id != mine[0].job_id
        and waits(pods)
        and (not pinned or wanted & {pod.node for pod in pods})
    ]
    older = [pods for pods in rivals if age(pods) < age(mine)]
    return min(older, key=age)[0].job_id if older else None
