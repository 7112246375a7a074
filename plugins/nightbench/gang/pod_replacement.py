"""Replaces the pods that a gang has lost, and opens the new ones for its controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from nightbench.gang.errors import PodError, RemoteFailure
from nightbench.gang.fanout import call_each, retry_unreachable
from nightbench.gang.node_client import NodeClient
from nightbench.gang.pods import GangPods
from nightbench.gang.progress import GangEvent, OnEvent


@dataclass
class PodReplacement:
    """The pods that a controller has opened; others in their places have to be opened first.

    `prepare` creates the pods that are missing, and prepares all nodes.
    """

    clients: Sequence[NodeClient]
    pods: GangPods
    prepare: Callable[[], Awaitable[None]]
    on_event: OnEvent
    opened: dict[str, str] = field(default_factory=dict, init=False)
    """Node -> name of the pod in which the controller has claimed its epoch."""

    async def open(self, lease_s: float) -> list[NodeClient]:
        """Open the pods of an earlier controller; return the nodes that have new ones.

        Raises:
            NodeError: Kubernetes gives no pod, or it cannot be prepared.
        """
        running = await self.pods.running()
        closed = []
        for client in self.clients:
            try:
                await retry_unreachable(client.open, lease_s)
            except (PodError, RemoteFailure):  # raised again where preparing does not help
                closed.append(client)
                running.pop(client.name, None)
        # New pods count as lost until they replace the old ones: agents in pods that are left
        # do not know their addresses.
        self.opened = running
        if closed:
            self._report({client.name for client in closed})
            await self.prepare()
        return closed

    async def lost(self) -> set[str]:
        """Return the nodes whose pod is lost, or is not the one that was opened."""
        return self._changed(await self.pods.running())

    async def replace(self, lost: Collection[str], epoch: int, repeat: int | None) -> set[str]:
        """Put a new pod in the place of each that is lost; return the nodes that have new ones.

        Raises:
            NodeError: Kubernetes gives none, or it cannot be prepared.
        """
        self._report(lost)

        async def release(client: NodeClient) -> None:
            if client.view.pid is None:
                await client.read_state(repeat)
            await client.release(epoch)

        # Agents read their job once: those that are left start again and see the new address.
        await call_each([each for each in self.clients if each.name not in lost], release)
        await self.prepare()
        # While it waited for machines, the gang may have given up its other pods, too.
        running = await self.pods.running()
        changed = self._changed(running)
        for client in self.clients:
            if client.name in changed:
                client.forget()
                await client.open()
                await client.claim_epoch(epoch)
        self.opened = running
        return changed

    def _changed(self, running: Mapping[str, str]) -> set[str]:
        names = {client.name for client in self.clients}
        return {name for name in names if running.get(name, "") != self.opened.get(name)}

    def _report(self, lost: Collection[str]) -> None:
        self.on_event(GangEvent("pod", f"lost: {', '.join(sorted(lost))}; replaced"))
