"""Commands and files in a pod, over the exec stream of the API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence

from nightbench.core.model import ReasonCode
from nightbench.core.pod_manifests import JOB, NODE, job_label, label_value
from nightbench.gang.errors import NodeUnreachable, PodError, RemoteFailure
from nightbench.gang.kubernetes_api import (
    ApiRefused,
    ApiUnreachable,
    KubernetesApi,
    PodTarget,
    acquire_api,
    release_api,
)
from nightbench.gang.node_files import BEGIN
from nightbench.gang.pod_process import PodProcess
from nightbench.gang.pod_states import PodState, code_of_refusal, state_of
from nightbench.gang.process import FILE_TIMEOUT_S, time_limit
from nightbench.gang.transport import Pool, Transport


@contextlib.contextmanager
def node_errors(target: PodTarget) -> Iterator[None]:
    """Turn the errors of requests into errors of a node."""
    try:
        yield
    except ApiRefused as refused:
        code = code_of_refusal(refused.status, refused.message)
        raise PodError.of_code(target, refused.message, code) from refused
    except ApiUnreachable as error:
        raise NodeUnreachable.of(target, f"no answer of the API server ({error})") from error
    except TimeoutError as late:
        raise NodeUnreachable.of(target, str(late)) from late


class PodTransport(Transport):
    """Commands and files in the pod of a node; a lost pod is followed by the next one."""

    def __init__(self, target: PodTarget, pool: Pool | None = None) -> None:
        super().__init__(target, target.address, str(target.policy.user), pool)
        self._target = target
        self._api: KubernetesApi | None = None
        self._pod: PodState | None = None
        self._looking = asyncio.Lock()

    async def reach(self) -> None:
        """Look for the node's pod if none is known."""
        await self._found()

    async def start(self, argv: Sequence[str]) -> PodProcess:
        """Start a command whose output begins after `MARK`; the caller closes it."""
        async with self.guard(f"start {argv[0]}", FILE_TIMEOUT_S):
            pod, api = await self._found()
            words = ["sh", "-c", BEGIN, "sh", *argv]
            return await api.execute(self._target.policy.namespace, pod.name, words)

    def not_run(self, command: str, status: int | None, said: bytes) -> RemoteFailure:
        """Return the error for a command that was not even begun."""
        tail = said.decode(errors="replace").strip()[-500:]
        return RemoteFailure.of(
            self, f"the pod did not run `{command}` (exit {status}): {tail!r}. Its image needs sh"
        )

    @contextlib.asynccontextmanager
    async def guard(self, what: str, timeout_s: float | None) -> AsyncIterator[None]:
        """Turn the errors of an operation into a `NodeError`."""
        try:
            async with time_limit(self, self._drop, what, timeout_s):
                yield
        except ApiUnreachable as error:
            self._drop()
            raise NodeUnreachable.of(self, f"no answer of the API server ({error})") from error
        except ApiRefused as error:
            if error.status in (401, 403):
                code = code_of_refusal(error.status, error.message)
                raise PodError.of_code(self, error.message, code) from error
            raise await self._loss(what, str(error)) from error
        except (ConnectionError, EOFError) as error:
            raise await self._loss(what, str(error)) from error

    async def _loss(self, what: str, why: str) -> PodError | NodeUnreachable:
        """Return why a stream ended: its pod has, or only the connection."""
        known = self._pod
        self._drop()
        if known is not None:
            with contextlib.suppress(ApiRefused, ApiUnreachable):
                now = await self._look()
                if now is None or now.end is not None:
                    assert self._api is not None, "it has been asked"
                    name, namespace = (now or known).name, self._target.policy.namespace
                    code, said = await cause_of_loss(self._api, namespace, name, now)
                    return PodError.of_code(self, said, code)
        return NodeUnreachable.of(self, f"stream lost ({why}), could not {what}")

    async def _found(self) -> tuple[PodState, KubernetesApi]:
        async with self._looking:
            if self._pod is None:
                pod = await self._look()
                if pod is None:
                    raise PodError.of_code(self, "the node has no pod", ReasonCode.POD_DELETED)
                if not pod.is_running:
                    code = pod.end or ReasonCode.POD_NOT_STARTED
                    raise PodError.of_code(self, pod.why or pod.waits or "not yet", code)
                self._pod, self._about = pod, None
            assert self._api is not None
            return self._pod, self._api

    async def _look(self) -> PodState | None:
        """Return the newest pod of the node; None if there is none."""
        target = self._target
        if target.job_id is None:
            raise RemoteFailure.of(self, "its pods exist only while a case is measured")
        if self._api is None:
            self._api = await acquire_api(target.access)
        labels = {JOB: job_label(target.job_id), NODE: label_value(target.node)}
        found = [state_of(pod) for pod in await self._api.pods(target.policy.namespace, labels)]
        return max(found, key=lambda pod: (pod.end is None, pod.created, pod.name), default=None)

    def _drop(self) -> None:
        self._pod = None
        self.drop_program()
        for channel in self._channels.values():
            channel.end()

    async def disconnect(self) -> None:
        """Close the streams; processes in the pod keep running."""
        self._drop()
        if self._api is not None:
            self._api = None
            await release_api(self._target.access)


# --- why a pod was deleted, or does not start: its status does not say so ---------------------

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
