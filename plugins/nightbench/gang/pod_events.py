"""Events of a pod: why it was deleted, and why it does not start. Its status does not say so."""

from __future__ import annotations

from nightbench.core.model import ReasonCode
from nightbench.gang.kubernetes_api import KubernetesApi
from nightbench.gang.pod_states import PodState

_BY_EVENT = {
    "Preempted": ReasonCode.POD_PREEMPTED,
    "Preempting": ReasonCode.POD_PREEMPTED,
    "Evicted": ReasonCode.POD_EVICTED,
    "TaintManagerEviction": ReasonCode.POD_EVICTED,
    "NodeControllerEviction": ReasonCode.MACHINE_LOST,
}
_NOT_READY = "NodeNotReady"

_EXPLAINED = (None, ReasonCode.POD_DELETED, ReasonCode.POD_EVICTED)
"""Ends of which events may know more; None: the pod is gone."""


async def cause_of_loss(
    api: KubernetesApi, namespace: str, name: str, left: PodState | None
) -> tuple[ReasonCode, str]:
    """Return why a pod has ended, by its last state and its events; `left` is None if it is gone.

    Raises:
        ApiRefused: the server refuses it.
        ApiUnreachable: the server does not answer.
    """
    code, why = (left.end, left.why) if left is not None else (None, "it is gone")
    if code in _EXPLAINED:
        events = await api.events(namespace, name)
        known = [each for each in events if each["reason"] in (*_BY_EVENT, _NOT_READY)][-2:]
        if known and known[-1]["reason"] != _NOT_READY:
            code, why = _BY_EVENT[known[-1]["reason"]], _text(known[-1])
            # Taints are an administrator's, or the controllers' on a machine that is away.
            if code is ReasonCode.POD_EVICTED and known[0]["reason"] == _NOT_READY:
                code = ReasonCode.MACHINE_LOST
    return code or ReasonCode.POD_DELETED, f"{name}: {why}"


async def last_event(api: KubernetesApi, namespace: str, name: str) -> str:
    """Return the newest event of a pod; empty if there is none.

    Raises:
        ApiRefused: the server refuses it.
        ApiUnreachable: the server does not answer.
    """
    events = await api.events(namespace, name)
    return _text(events[-1]) if events else ""


def _text(event: dict[str, str]) -> str:
    return f"{event['reason']}: {event['message']}"
