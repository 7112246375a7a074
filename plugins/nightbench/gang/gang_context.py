"""The state of one gang that its controller, its repeats and its agents' supervisor share."""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from nightbench.core.model import JobSpec, reasons_from_json, reasons_to_json
from nightbench.gang.decisions import is_too_late
from nightbench.gang.errors import Cancelled, Superseded
from nightbench.gang.fanout import NodeMonitor, call_each
from nightbench.gang.node_client import NodeClient
from nightbench.gang.progress import OnEvent, ProgressDocument, ignore
from nightbench.gang.slurm_launcher import SlurmLauncher
from nightbench.gang.ssh_transport import SshTransport
from nightbench.spool import CaseStore, RepeatOutcome

PROGRESS_INTERVAL_S = 1.0

ThroughputOf = Callable[[Mapping[str, Any], Mapping[str, Mapping[str, Any]]], float | None]
"""(controller's record of a repeat, node -> result.json) -> units/s; None where not measured."""


class GangContext:
    """All nodes of a job under one controller, and what has become of its repeats.

    `clock` is the controller's monotonic clock, `today` its date: those of nodes may be off. An
    adaptive protocol needs the throughput of each repeat. Agents are started over SSH without a
    launcher.
    """

    def __init__(
        self,
        job: JobSpec,
        transports: Mapping[str, SshTransport],
        store: CaseStore,
        on_event: OnEvent = ignore,
        clock: Callable[[], float] = time.monotonic,
        throughput_of: ThroughputOf | None = None,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        launcher: SlurmLauncher | None = None,
    ) -> None:
        self.job = job
        self.launcher = launcher
        self.store = store
        self.on_event = on_event
        self.clock = clock
        self.clients = [
            NodeClient(job, node, transports[node.name], clock, launcher) for node in job.nodes
        ]
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
        """Check whether this controller may go on.

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
                f"{self.job.job_id}: another controller writes the records since epoch {epoch}; "
                f"this one has epoch {self.epoch} and stops"
            )

    async def abort_returned_nodes(self) -> None:
        """Abort, on nodes that did not answer when a repeat was given up, that repeat.

        Without the command such a node would go on with the repeat when it is back.

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
