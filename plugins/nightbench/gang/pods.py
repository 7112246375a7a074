"""The pods of a gang: created when a case begins, all or none, and deleted when it ends."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from nightbench.core.model import JobSpec, ReasonCode
from nightbench.core.pod_manifests import (
    APP,
    GATES,
    GRACE_S,
    JOB,
    NAME,
    NO_POD_GROUPS,
    RUN,
    job_label,
    label_value,
    pod,
    pod_group,
)
from nightbench.gang.errors import GangError, NodeError, NodeUnreachable, PodError
from nightbench.gang.kubernetes_api import ApiUnreachable, KubernetesApi, PodTarget, opened_api
from nightbench.gang.pod_states import PodState, has_to_yield, state_of
from nightbench.gang.pod_transport import cause_of_loss, last_event, node_errors
from nightbench.gang.progress import GangEvent, OnEvent, ignore
from nightbench.gang.transport import Target, shared_transport

T = TypeVar("T")

POLL_S = 1.0

AWAY_S = 120.0
"""Time for which the API server may be away while pods are created, awaited or deleted."""

END_S = GRACE_S + 30.0
"""Time in which deleted pods are gone."""

ORPHAN_S = 2 * 3600.0
"""A younger pod may be one whose controller is just about to use it."""

WAIT_MARGIN_S = 600.0
"""A gang waits for its pods for `wait_s`; its own controller deletes them within so long."""

_MARKED = "grep -lzs '^NIGHTBENCH_AGENT=' /proc/[0-9]*/environ"
"""Lists processes of jobs; exit code 1 if there is none."""


def pods_of(
    job: JobSpec, targets: Mapping[str, Target], on_event: OnEvent = ignore
) -> GangPods | None:
    """Return the pods of a job; None if its nodes are machines."""
    found = {node.name: targets.get(node.name) for node in job.nodes}
    pods = {name: each for name, each in found.items() if isinstance(each, PodTarget)}
    return GangPods(job, pods, on_event) if pods else None


async def delete_pods_of(
    job: JobSpec, targets: Mapping[str, Target], on_event: OnEvent = ignore
) -> None:
    """Delete the pods of a case that has ended, if it has any; an error of that is an event."""
    pods = pods_of(job, targets, on_event)
    if pods is not None:
        await pods.delete_or_report()


@dataclass
class GangPods:
    """All pods of one job."""

    job: JobSpec
    targets: Mapping[str, PodTarget]
    on_event: OnEvent = ignore

    @property
    def _target(self) -> PodTarget:
        return self.targets[self.job.nodes[0].name]

    async def create(self) -> JobSpec:
        """Create the pods that are missing, and wait until all run.

        Returns:
            The job, with the pods' addresses as data addresses.

        Raises:
            PodError: Kubernetes does not give one of them; all have been deleted.
            NodeUnreachable: the API server does not answer.
            asyncio.CancelledError: the pods stay.
        """
        async with self.deleted_on_error(), opened_api(self._target.access) as api:
            running = await self._await_all(api)
        nodes = [
            dataclasses.replace(node, data_address=running[node.name].address)
            for node in self.job.nodes
        ]
        return dataclasses.replace(self.job, nodes=tuple(nodes))

    @asynccontextmanager
    async def deleted_on_error(self) -> AsyncIterator[None]:
        """Delete the pods if an error ends the context, unless a later attempt may use them."""
        try:
            yield
        except NodeUnreachable:
            raise
        except Exception:
            await asyncio.shield(self.delete_or_report())
            raise

    async def _await_all(self, api: KubernetesApi) -> dict[str, PodState]:
        policy, clock = self._target.policy, asyncio.get_running_loop().time
        began_s = clock()
        known: set[str] | None = None
        """Pods that had ended before; one that ends from now on ends the case."""
        created: set[str] = set()
        """Pods that this created and did not delete."""
        said = rival = grouped = None
        version = await self._pod_groups(api)
        while True:
            everyone = await self._all(api, {NAME: APP})
            mine = [each for each in everyone if each.job_id == self.job.job_id]
            known = {each.name for each in mine if each.end} if known is None else known
            for each in mine:
                if each.end is not None and each.name not in known and rival is None:
                    raise await self._lost(api, each.node, each.name, each)
            if gone := sorted(created - {each.name for each in mine}):
                raise await self._lost(api, self.job.nodes[0].name, gone[0], None)
            alive = {each.node: each for each in mine if each.end is None}
            waiting = [each for each in alive.values() if not each.is_running]
            if len(alive) == len(self.job.nodes) and not waiting:
                return alive
            if clock() - began_s > policy.wait_s:
                raise await self._start_timeout(api, waiting, rival, policy.wait_s)
            if any(each.competes for each in everyone if each.job_id == rival):
                await asyncio.sleep(POLL_S)
                continue
            rival = has_to_yield(list(alive.values()), everyone, pinned=policy.pinned)
            if rival is not None:
                self._report(f"the pods yield to {rival}, which has waited for machines longer")
                known |= {each.name for each in mine}
                await self._delete(api, alive.values())
                created.clear()
                continue
            created |= await self._create_missing(api, alive)
            group = next((each.group for each in alive.values()), None)
            if version is not None and len(alive) == len(self.job.nodes) and group != grouped:
                uids = {each.name: each.uid for each in alive.values()}
                manifest = pod_group(self.job, policy, str(group), version, uids)
                await self._answer(partial(api.create, "podgroups", manifest))
                grouped = group
            waits = "; ".join(f"{each.node}: {each.waits}" for each in waiting if each.waits)
            if waits and waits != said:
                said = waits
                self._report(f"waiting for pods: {waits}")
            await asyncio.sleep(POLL_S)

    async def _pod_groups(self, api: KubernetesApi) -> str | None:
        """Return the version of the API of PodGroups; None if the pods are no PodGroup."""
        if not self._target.policy.pod_groups or len(self.job.nodes) == 1:
            return None
        version = await self._answer(api.pod_groups)
        if version is None:
            raise PodError.of_code(self._target, NO_POD_GROUPS, ReasonCode.API_REFUSED, GATES)
        return version

    async def _create_missing(self, api: KubernetesApi, alive: Mapping[str, PodState]) -> set[str]:
        policy, created = self._target.policy, set()
        # A successor of the same name would pass for the lost pod.
        serial = secrets.token_hex(3)
        # A group that has no pods left has ended.
        new = f"nb-{job_label(self.job.job_id)}-{serial}"
        group = next((each.group for each in alive.values()), new)
        # All gangs create in one order, the same in which they lock nodes.
        for node in sorted(self.job.nodes, key=lambda node: node.name):
            if node.name in alive:
                continue
            manifest = pod(self.job, node, policy, serial, group, shared=self._target.shared)
            await self._answer(partial(api.create, "pods", manifest), node.name)
            created.add(manifest["metadata"]["name"])
            self._report(f"pod {manifest['metadata']['name']} created", node.name)
        return created

    async def _lost(
        self, api: KubernetesApi, node: str, name: str, left: PodState | None
    ) -> PodError:
        """Return the error for a pod that has ended; `left` is None if it is gone."""
        ask = partial(cause_of_loss, api, self._target.policy.namespace, name, left)
        code, why = await self._answer(ask, node)
        return PodError.of_code(self.targets[node], why, code)

    async def _start_timeout(
        self, api: KubernetesApi, waiting: list[PodState], rival: str | None, wait_s: float
    ) -> PodError:
        """Return the error for pods that do not all run in time."""
        expected = f"{wait_s:g} s"
        if not waiting:
            why = f"{rival} waits for machines, too"
            return PodError.of_code(self._target, why, ReasonCode.POD_UNSCHEDULABLE, expected)
        first = min(waiting, key=lambda each: (each.machine is not None, each.node))
        code = ReasonCode.POD_NOT_STARTED if first.machine else ReasonCode.POD_UNSCHEDULABLE
        event = await self._answer(
            partial(last_event, api, self._target.policy.namespace, first.name), first.node
        )
        said = first.waits if code is ReasonCode.POD_UNSCHEDULABLE else ""
        why = said or "; ".join(filter(None, (first.waits, event))) or "no scheduler answered"
        return PodError.of_code(self.targets[first.node], why, code, expected)

    async def running(self) -> dict[str, str]:
        """Return node -> name of its pod, for the nodes that have one that runs.

        Raises:
            NodeUnreachable: the API server does not answer.
        """
        async with opened_api(self._target.access) as api:
            found = await self._all(api, {JOB: job_label(self.job.job_id)})
        return {pod.node: pod.name for pod in found if pod.is_running}

    async def delete(self) -> None:
        """Delete all pods of the job, and wait until they are gone.

        Raises:
            PodError: Kubernetes refuses it.
            NodeUnreachable: the API server does not answer, or a pod does not end.
        """
        async with opened_api(self._target.access) as api:
            await self._delete(api, await self._all(api, {JOB: job_label(self.job.job_id)}))

    async def delete_or_report(self) -> None:
        """Delete all pods of the job; an error of that is an event."""
        try:
            await self.delete()
        except GangError as error:
            self._report(f"pods could not be deleted: {error}")

    async def _delete(self, api: KubernetesApi, pods: Iterable[PodState]) -> None:
        names = [each.name for each in pods]
        await self._answer(partial(_delete_pods, api, self._target.policy.namespace, names))

    async def _all(self, api: KubernetesApi, labels: Mapping[str, str]) -> list[PodState]:
        found = await self._answer(partial(api.pods, self._target.policy.namespace, labels))
        return [state_of(each) for each in found]

    async def _answer(self, ask: Callable[[], Awaitable[T]], node: str | None = None) -> T:
        """Return the answer to a request; the server may be away for a while."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + AWAY_S
        while True:
            with node_errors(self.targets[node] if node else self._target):
                try:
                    return await ask()
                except ApiUnreachable:
                    if clock() > until_s:
                        raise
            await asyncio.sleep(POLL_S)

    def _report(self, message: str, node: str | None = None) -> None:
        self.on_event(GangEvent("pod", message, node))


async def _delete_pods(api: KubernetesApi, namespace: str, names: list[str]) -> None:
    """Delete pods, and wait until they are gone; raise TimeoutError if one does not end."""
    for name in names:
        await api.delete_pod(namespace, name)
    clock = asyncio.get_running_loop().time
    until_s, left = clock() + END_S, set(names)
    while left:
        there = {each["metadata"]["name"] for each in await api.pods(namespace, {NAME: APP})}
        left &= there
        if left and clock() > until_s:
            raise TimeoutError(f"pods do not end within {END_S:g} s: {', '.join(sorted(left))}")
        await asyncio.sleep(POLL_S / 2 if left else 0)


async def pods_of_run(target: PodTarget, run_id: str) -> list[PodState]:
    """Return all pods of a run.

    Raises:
        PodError: Kubernetes refuses it.
        NodeUnreachable: the API server does not answer.
    """
    labels = {NAME: APP, RUN: label_value(run_id)}
    with node_errors(target):
        async with opened_api(target.access) as api:
            found = await api.pods(target.policy.namespace, labels)
    return [state_of(each) for each in found]


async def delete_run(target: PodTarget, run_id: str, left_to_controller_s: float) -> None:
    """Delete the pods of a run that its controller has not deleted in a while.

    Raises:
        PodError: Kubernetes refuses it.
        NodeUnreachable: the API server does not answer, or a pod does not end.
    """
    clock = asyncio.get_running_loop().time
    until_s = clock() + left_to_controller_s
    while (left := await pods_of_run(target, run_id)) and clock() < until_s:
        await asyncio.sleep(POLL_S)
    with node_errors(target):
        async with opened_api(target.access) as api:
            await _delete_pods(api, target.policy.namespace, [each.name for each in left])


async def remove_orphans(targets: Mapping[str, PodTarget]) -> dict[str, list[str]]:
    """Delete pods that no run uses: ended ones, and old ones in which nothing of a job runs.

    Returns:
        Node -> names of its pods that were deleted.

    Raises:
        PodError: Kubernetes refuses it.
        NodeUnreachable: the API server does not answer, or a pod does not end.
    """
    first = next(iter(targets.values()))
    removed: dict[str, list[str]] = {name: [] for name in targets}
    namespace = first.policy.namespace
    with node_errors(first):
        async with opened_api(first.access) as api:
            for each in map(state_of, await api.pods(namespace, {NAME: APP})):
                if each.node in targets and await _is_orphan(each, targets[each.node]):
                    removed[each.node].append(each.name)
            await _delete_pods(api, namespace, [name for one in removed.values() for name in one])
    return removed


async def _is_orphan(pod: PodState, target: PodTarget) -> bool:
    if pod.end is not None:
        return True
    young_s = max(ORPHAN_S, target.policy.wait_s + WAIT_MARGIN_S)
    if datetime.now(UTC) - pod.created < timedelta(seconds=young_s):
        return False
    if not pod.is_running:
        return True
    node = shared_transport(target.of_job(pod.job_id))
    try:
        marked = await node.run(["sh", "-c", _MARKED], timeout_s=30.0)
    except NodeError:  # its controller has deleted it meanwhile, or it may run a job
        return False
    finally:
        await node.close()
    return marked.exit == 1
