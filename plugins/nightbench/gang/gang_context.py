"""Shared state of a gang's controller and its repeats, and the renewal of agents' leases."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nightbench.core.model import JobSpec, reasons_from_json, reasons_to_json
from nightbench.core.sentences import sentences
from nightbench.gang.decisions import SERVING, is_too_late
from nightbench.gang.errors import Cancelled, DeadlinePassed, NodeError, Superseded
from nightbench.gang.fanout import NodeMonitor, call_each, retry_unreachable
from nightbench.gang.node_access import on_all
from nightbench.gang.node_client import NodeClient
from nightbench.gang.pod_replacement import PodReplacement
from nightbench.gang.pods import GangPods
from nightbench.gang.progress import GangEvent, OnEvent, ProgressDocument, ignore
from nightbench.gang.slurm_launcher import SlurmLauncher
from nightbench.gang.transport import Transport
from nightbench.spool import CaseStore, RepeatOutcome

PROGRESS_INTERVAL_S = 1.0

ThroughputOf = Callable[[Mapping[str, Any], Mapping[str, Mapping[str, Any]]], float | None]
"""(controller's record of a repeat, node -> result.json) -> units/s; None if not measured."""


class GangContext:
    """All nodes of a job under one controller, and what has become of its repeats.

    `clock` is the controller's monotonic clock, `today` its date: those of nodes may be off. An
    adaptive protocol needs the throughput of each repeat. Agents are started over SSH without a
    launcher. `prepare` prepares nodes again after `pods` were replaced.
    """

    def __init__(
        self,
        job: JobSpec,
        transports: Mapping[str, Transport],
        store: CaseStore,
        on_event: OnEvent = ignore,
        clock: Callable[[], float] = time.monotonic,
        throughput_of: ThroughputOf | None = None,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        launcher: SlurmLauncher | None = None,
        pods: GangPods | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.job = job
        self.launcher = launcher
        self.pods = pods
        self.store = store
        self.on_event = on_event
        self.clock = clock
        self.clients = [
            NodeClient(job, node, transports[node.name], clock, launcher) for node in job.nodes
        ]
        self._replacement = (
            PodReplacement(self.clients, pods, prepare, on_event) if pods and prepare else None
        )
        self.throughput_of = throughput_of
        self.today = today
        self.outcomes: list[RepeatOutcome] = []
        self.progress = ProgressDocument(job)
        self.epoch = 0
        self.monitor = NodeMonitor([], 0, job.limits.lease_s, on_event, clock)
        self.fingerprinted: set[str] = set()
        """Nodes whose fingerprint is in the spool."""
        self._progress_written_s = 0.0
        self._aborted: set[tuple[int, str]] = set()
        """(repeat, node) pairs that `abort_returned_nodes` has dealt with."""

    @property
    def lead(self) -> NodeClient:
        """The node in whose job directory repeats are claimed."""
        return self.clients[0]

    def in_lock_order(self) -> list[NodeClient]:
        """Return the nodes in the order in which every gang takes locks, to avoid deadlocks."""
        return sorted(self.clients, key=lambda client: (client.transport.address, client.name))

    def start_monitor(self, epoch: int) -> None:
        """Poll all nodes from now on, under the epoch that this controller has claimed."""
        self.epoch = epoch
        self.monitor = NodeMonitor(
            self.clients, epoch, self.job.limits.lease_s, self.on_event, self.clock
        )
        self.monitor.open()

    async def write_progress(
        self,
        state: str,
        repeat: int,
        message: str = "",
        running_s: float = 0.0,
        force: bool = False,
    ) -> None:
        """Rewrite progress.json unless it was written within the last `PROGRESS_INTERVAL_S`."""
        now = self.clock()
        if not force and now - self._progress_written_s < PROGRESS_INTERVAL_S:
            return
        self._progress_written_s = now
        views = [client.view for client in self.clients]
        document = self.progress.document(state, repeat, views, running_s, message)
        await asyncio.to_thread(self.store.save_progress, document)

    def is_too_late(self) -> bool:
        """Return whether a repeat that is started now may run beyond the job's deadline."""
        return is_too_late(self.job, self.outcomes, self.today())

    async def raise_if_ended(self) -> None:
        """Check whether this controller may continue.

        Raises:
            Superseded: another controller has claimed a higher epoch on a node.
            Cancelled: the job was cancelled.
        """
        if self.monitor.superseded_by is not None:
            raise Superseded(
                f"{self.job.job_id}: another controller has claimed epoch "
                f"{self.monitor.superseded_by} on a node; this one has epoch {self.epoch} and stops"
            )
        if any(client.view.agent == "ended" for client in self.clients):
            await self.raise_if_cancelled()

    async def raise_if_cancelled(self) -> None:
        """Read the stop command of every node.

        Raises:
            Cancelled: one of them cancels the job.
        """
        stops = await call_each(self.clients, NodeClient.stop_command)
        for stop in stops.values():
            if stop and stop.get("cancelled"):
                raise Cancelled(reasons_from_json(stop["reasons"]))

    async def raise_if_superseded(self) -> None:
        """Check the epoch in the spool before a record is written there.

        A controller that is cut off from the nodes does not see the epochs on them, and would
        record repeats as failed that its successor measures.

        Raises:
            Superseded: another controller has a higher epoch.
        """
        epoch = await asyncio.to_thread(self.store.epoch)
        if epoch > self.epoch:
            raise Superseded(
                f"{self.job.job_id}: another controller has written the records since epoch "
                f"{epoch}; this one has epoch {self.epoch} and stops"
            )

    async def open(self) -> None:
        """Locate all job directories; pods that are lost or not prepared are prepared first.

        Raises:
            NodeError: a node cannot be reached, or was never prepared.
        """
        lease_s, closed = self.job.limits.lease_s, self.clients
        if self._replacement is not None:
            closed = await self._replacement.open(lease_s)
        await on_all(retry_unreachable(client.open, lease_s) for client in closed)

    async def lost_pods(self) -> set[str]:
        """Return the nodes whose pod is lost, or is another one than this controller has opened."""
        return await self._replacement.lost() if self._replacement is not None else set()

    async def replace_pods(self, lost: Collection[str]) -> None:
        """Put a new pod in the place of each that is lost; the other nodes get its address.

        Raises:
            NodeError: Kubernetes gives none, or it cannot be prepared.
        """
        if lost and self._replacement is not None:
            new = await self._replacement.replace(lost, self.epoch, self.monitor.repeat)
            self._aborted |= {(each.repeat, name) for each in self.outcomes for name in new}
            self.fingerprinted -= new  # the new pod may run on another machine

    async def abort_returned_nodes(self) -> None:
        """Abort, on nodes that did not answer when a repeat was given up, that repeat.

        Without the command such a node would continue the repeat when it is back.

        Raises:
            NodeError: one of them still does not answer.
        """
        for outcome in self.outcomes:
            for name in outcome.missing:
                client = next(client for client in self.clients if client.name == name)
                if (outcome.repeat, name) in self._aborted:
                    continue
                if await client.result(outcome.repeat) is None:
                    document = {"epoch": self.epoch, "reasons": reasons_to_json(outcome.reasons)}
                    await client.command("abort", outcome.repeat, document)
                self._aborted.add((outcome.repeat, name))


PROCESS_CHECK_S = 5.0
"""Interval at which an agent that waits for its node's lock is checked for its process."""

FIRST_STATE_S = 2.0
"""Time in which a started agent must have written its first state."""

MAX_STARTS = 3
"""After so many starts that ended at once, the node is given up."""

SWEEP_TIMEOUT_S = 30.0


@dataclass
class _Start:
    starts: int = 0
    checked_s: float | None = None
    """When an agent was last known to run there."""
    reported_wait: str | None = None
    reported_holder: object = None


class AgentSupervisor:
    """Starts and restarts the agents of one gang."""

    def __init__(self, gang: GangContext) -> None:
        self._gang = gang

    async def start_all(self, repeat: int, optional: bool) -> None:
        """Return once every node has an agent that holds the node's lock.

        With `optional` the repeat is not claimed yet, so it may be skipped when time runs out.

        Raises:
            NodeError: a node did not answer for the length of a lease, or its agent cannot start.
            DeadlinePassed: the job's deadline passed while another job had a lock.
        """
        clients = self._gang.in_lock_order()
        # Every gang takes locks in the same order, and holds none that comes after the one that it
        # waits for: no deadlock can arise. A node that was lost is therefore not waited for while
        # later ones are held: they are released, found absent here, and locked again.
        while absent := await self._without_lock(clients):
            for client in absent:
                later = clients[clients.index(client) + 1 :]
                await self._start(client, later, repeat, optional)

    async def restart(self, client: NodeClient) -> None:
        """Start an agent if the last one died; the new agent writes the repeat's result."""
        try:
            started, _ = await client.start_agent(sweep=False)
            if not started:
                return
            why = "the agent had died"
            if await client.check_reboot():
                why = "the node was rebooted"
            self._gang.on_event(GangEvent("agent", why, client.name))
        except NodeError as error:
            client.note_error(error)
        except Cancelled:
            return  # the repeat fails; starting the next repeat raises Cancelled again

    async def sweep(self, clients: list[NodeClient]) -> None:
        """End the processes of agents that have died on these nodes."""
        swept = await call_each(clients, NodeClient.sweep_orphans, SWEEP_TIMEOUT_S)
        for node, pids in swept.items():
            self._note_swept(node, pids)

    def _note_swept(self, node: str, pids: list[int]) -> None:
        if pids:
            message = f"ended {len(pids)} orphaned processes"
            self._gang.on_event(GangEvent("sweep", message, node))

    async def _without_lock(self, clients: list[NodeClient]) -> list[NodeClient]:
        """Return the nodes that no running agent of this gang holds."""
        now = self._gang.clock()
        holding = [x for x in clients if x.holds_lock and x.view.answers(now)]
        running = await call_each(holding, NodeClient.is_agent_running)
        return [client for client in clients if not running.get(client.name)]

    async def _start(
        self, client: NodeClient, later: list[NodeClient], repeat: int, optional: bool
    ) -> None:
        """Start an agent and wait for its lock; locks of nodes `later` are released meanwhile."""
        gang = self._gang
        begun = _Start()
        while True:
            now = gang.clock()
            waited_s = now - begun.checked_s if begun.checked_s is not None else None
            if waited_s is None or _agent_is_gone(client, waited_s):
                await self._try_to_start(client, repeat, begun)
            elif waited_s > PROCESS_CHECK_S:
                running = await call_each([client], NodeClient.is_agent_running)
                begun.checked_s = now if running.get(client.name) is not False else None
                if begun.checked_s is None:
                    continue
            if begun.checked_s is not None and client.holds_lock:
                return
            # A batch system has given all nodes to one gang: none is held for another.
            if client.view.agent == "waiting" and client.launcher is None:
                await self._release(later, client)
            await self._report_waiting(client, repeat, begun)
            await gang.monitor.next_views()
            await gang.raise_if_ended()
            if optional and gang.is_too_late():
                raise DeadlinePassed(
                    f"the deadline passed while waiting for the lock of node {client.name}"
                )

    async def _try_to_start(self, client: NodeClient, repeat: int, begun: _Start) -> None:
        """Start an agent unless one runs; give up after a lease, or if agents end at once."""
        gang = self._gang
        if begun.starts >= MAX_STARTS:
            raise NodeError.of(
                client.transport,
                f"the agent ended {begun.starts} times right after its start: "
                f"{sentences(client.view.agent_reasons)}; see agent.out and agent.jsonl "
                "in its job folder",
            )
        now = gang.clock()
        try:
            await client.renew(gang.epoch)
            started, swept = await client.start_agent(sweep=True)
            self._note_swept(client.name, swept)
            if started:
                begun.starts += 1
                message = "agent started"
                if repeat > 1 and await client.check_reboot():
                    message = "agent started; the node was rebooted"
                gang.on_event(GangEvent("agent", message, client.name))
            begun.checked_s = gang.clock()
            await client.read_state(gang.monitor.repeat)
        except NodeError as error:
            # A short interruption is retried; a longer one ends with its last error.
            if now - client.view.answered_s > gang.job.limits.lease_s:
                raise
            client.note_error(error)

    async def _release(self, later: list[NodeClient], waits_for: NodeClient) -> None:
        """Release later locks; a silent agent gets the command later, or its lease expires."""
        gang = self._gang
        now = gang.clock()
        alive = [x for x in later if x.holds_lock or x.view.agent == "waiting"]
        alive = [client for client in alive if client.view.answers(now)]
        for client in alive:
            if client.holds_lock:
                message = f"lock released until node {waits_for.name}, which comes first, is free"
                gang.on_event(GangEvent("agent", message, client.name))
        await call_each(alive, lambda client: client.release(gang.epoch))

    async def _report_waiting(self, client: NodeClient, repeat: int, begun: _Start) -> None:
        """Report once who or what an agent waits for: a batch system, or another job's lock."""
        gang = self._gang
        waits = client.launcher.waits if client.launcher is not None else None
        if waits is not None and waits != begun.reported_wait:
            gang.on_event(GangEvent("waiting", waits))
            await gang.write_progress("waiting", repeat, waits, force=True)
        begun.reported_wait = waits
        holder = client.view.lock_holder
        if client.view.agent != "waiting" or holder == begun.reported_holder:
            return
        begun.reported_holder = holder
        who = holder or {}
        message = (
            f"waiting for node {client.name}: {who.get('job_id', 'an unknown job')} of user "
            f"{who.get('user', '?')} has locked it since {who.get('since', '?')}"
        )
        gang.on_event(GangEvent("waiting", message, client.name))
        await gang.write_progress("waiting", repeat, message, force=True)


def _agent_is_gone(client: NodeClient, waited_s: float) -> bool:
    """Return whether the agent that was started before `waited_s` has ended or never ran."""
    if client.view.agent == "ended":
        return True
    return client.view.agent not in (*SERVING, "waiting") and waited_s > FIRST_STATE_S
