"""Steering a gang through the repeats of a case, from any point where a controller left it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from nightbench.core.model import (
    CaseStatus,
    JobSpec,
    Reason,
    reasons_from_json,
    reasons_to_json,
)
from nightbench.gang.agents import Agents, TooLate
from nightbench.gang.decisions import SERVING, Conclusion, conclude, conclude_by_deadline, too_late
from nightbench.gang.errors import GangError, NodeError, Superseded
from nightbench.gang.fanout import QUICK_S, NodeWatch, call_each, retry_unreachable
from nightbench.gang.link import NodeLink
from nightbench.gang.node_access import Connect, connections, on_all
from nightbench.gang.progress import GangEvent, OnEvent, ProgressDocument, ignore
from nightbench.gang.repeat import Cancelled, RepeatSteering
from nightbench.gang.ssh_pool import shared
from nightbench.gang.ssh_target import SshTarget
from nightbench.gang.transport import Transport
from nightbench.spool import CaseOutcome, CaseStore, RepeatOutcome

STOP_S = 30.0
"""What agents may take to let go of their nodes, beyond the time to terminate."""

ThroughputOf = Callable[[Mapping[str, Any], Mapping[str, Mapping[str, Any]]], float | None]
"""From the controller's record of a repeat and its results by node to its throughput."""


def utc_date() -> datetime:
    """The controller's date: nodes' clocks may be off by minutes."""
    return datetime.now(UTC)


async def run_gang(
    job: JobSpec,
    targets: Mapping[str, SshTarget],
    store: CaseStore,
    on_event: OnEvent = ignore,
    connect: Connect = shared,
    throughput_of: ThroughputOf | None = None,
    today: Callable[[], datetime] = utc_date,
) -> CaseOutcome:
    """Measure a case: all its repeats, one fresh launch of the gang each.

    Called again after any interruption it goes on: repeats that have ended are fetched, one that
    runs is watched further, none is launched twice, and a case that has ended is only returned.
    Cancelling the task leaves the gang as it is until its lease ends; `cancel` ends it.

    Args:
        job: the job; `prepare` has brought it to the nodes.
        targets: how each node is reached, by name.
        store: where results, progress and outcome go.
        on_event: hears what happens.
        connect: makes a transport to a target.
        throughput_of: tells an adaptive protocol what a repeat brought; without it the protocol
            launches the most of its repeats.
        today: the controller's date in UTC, for the job's deadline.

    Raises:
        NodeError: a node cannot be reached or refuses before anything was launched.
        Superseded: another controller steers the gang now.
    """
    known = await asyncio.to_thread(store.outcome)
    if known is not None:
        return CaseOutcome.from_json(known)
    async with connections(job.nodes, targets, connect) as transports:
        gang = Gang(job, transports, store, on_event, throughput_of=throughput_of, today=today)
        try:
            return await gang.run()
        finally:
            await gang.close()


class Gang:
    """All nodes of a job under one controller.

    Args:
        job: the job.
        transports: access to its nodes, by name.
        store: the case's files.
        on_event: hears what happens.
        clock: the controller's monotonic clock.
        throughput_of: what a repeat brought, for an adaptive protocol.
        today: the controller's date.
    """

    def __init__(
        self,
        job: JobSpec,
        transports: Mapping[str, Transport],
        store: CaseStore,
        on_event: OnEvent = ignore,
        clock: Callable[[], float] = time.monotonic,
        throughput_of: ThroughputOf | None = None,
        today: Callable[[], datetime] = utc_date,
    ) -> None:
        self.job = job
        self.store = store
        self.on_event = on_event
        self.clock = clock
        self.links = [NodeLink(job, node, transports[node.name], clock) for node in job.nodes]
        self.throughput_of = throughput_of
        self.today = today
        self.agents = Agents(self)
        self.outcomes: list[RepeatOutcome] = []
        self.progress = ProgressDocument(job)
        self.epoch = 0
        self.watch = NodeWatch([], 0, job.limits.lease_s, on_event, clock)
        self._told_s = 0.0
        self._settled: set[tuple[int, str]] = set()
        self.known: set[str] = set()
        """Nodes whose fingerprint the spool has."""

    @property
    def lead(self) -> NodeLink:
        """The node that claims repeats."""
        return self.links[0]

    def in_lock_order(self) -> list[NodeLink]:
        """The nodes in the one order in which every gang takes locks, so that none deadlock."""
        return sorted(self.links, key=lambda link: (link.transport.address, link.name))

    async def run(self) -> CaseOutcome:
        """Steer from wherever the gang stands to its outcome."""
        patience_s = self.job.limits.lease_s
        await on_all(retry_unreachable(link.open, patience_s) for link in self.links)
        self.epoch = await self._claim_epoch(patience_s)
        await self.fence()
        await asyncio.to_thread(self.store.save_epoch, self.epoch)
        self.watch = NodeWatch(
            self.links, self.epoch, self.job.limits.lease_s, self.on_event, self.clock
        )
        self.watch.open()
        self.outcomes = await self._recorded()
        try:
            end = await self._repeats()
        except Cancelled as cancelled:
            end = Conclusion(CaseStatus.CANCELLED, cancelled.reasons)
            self.outcomes = await self._recorded()  # the last one's record may just be written
        except NodeError:
            # Nothing can be launched: the nodes that did answer are free for the next case.
            await self._stop_agents()
            raise
        outcome = self._outcome(end)
        await self._stop_agents()
        await self.fence()
        await asyncio.to_thread(self.store.save_outcome, outcome.to_json())
        said = outcome.why or f"{len(outcome.repeats)} repeats"
        await self.tell("ended", len(outcome.repeats), said, force=True)
        self.on_event(GangEvent("outcome", f"{outcome.status}: {said}"))
        return outcome

    async def close(self) -> None:
        """Stop watching."""
        await self.watch.close()

    async def tell(
        self,
        state: str,
        repeat: int,
        message: str = "",
        running_s: float = 0.0,
        force: bool = False,
    ) -> None:
        """Rewrite progress.json, about every second."""
        now = self.clock()
        if not force and now - self._told_s < 1.0:
            return
        self._told_s = now
        views = [link.view for link in self.links]
        document = self.progress.document(state, repeat, views, running_s, message)
        await asyncio.to_thread(self.store.save_progress, document)

    async def check(self) -> None:
        """Look whether this controller may go on.

        Raises:
            Superseded: a higher epoch was claimed.
            Cancelled: somebody ended the job.
        """
        if self.watch.superseded_by is not None:
            raise Superseded(
                f"{self.job.job_id}: another controller has claimed epoch "
                f"{self.watch.superseded_by}, this one has {self.epoch} and steers no more"
            )
        if any(link.view.agent == "ended" for link in self.links):
            await self.raise_when_cancelled()

    async def raise_when_cancelled(self) -> None:
        """Ask the nodes whether somebody has ended the job.

        Raises:
            Cancelled: somebody has.
        """
        stops = await call_each(self.links, NodeLink.stop_command)
        for stop in stops.values():
            if stop and stop.get("cancelled"):
                raise Cancelled(reasons_from_json(stop["reasons"]))

    async def fence(self) -> None:
        """Look before a record is written whether another controller writes them now.

        A controller that is cut off from the nodes does not see their epochs, and would record
        repeats as failed that its successor measures.

        Raises:
            Superseded: another one has a higher epoch.
        """
        epoch = await asyncio.to_thread(self.store.epoch)
        if epoch > self.epoch:
            raise Superseded(
                f"{self.job.job_id}: another controller writes the records since epoch {epoch}, "
                f"this one has {self.epoch} and steers no more"
            )

    def too_late(self) -> bool:
        """Whether no further repeat can end before the deadline."""
        return too_late(self.job, self.outcomes, self.today())

    async def settle(self) -> None:
        """Nodes that were away when a repeat was given up do not take it up when they return.

        Raises:
            NodeError: one of them still cannot be told.
        """
        for outcome in self.outcomes:
            for name in outcome.missing:
                link = next(link for link in self.links if link.name == name)
                if (outcome.repeat, name) in self._settled:
                    continue
                if await link.result(outcome.repeat) is None:
                    document = {"epoch": self.epoch, "reasons": reasons_to_json(outcome.reasons)}
                    await link.command("abort", outcome.repeat, document)
                self._settled.add((outcome.repeat, name))

    # --- the parts of a run ---------------------------------------------------------------

    async def _claim_epoch(self, patience_s: float) -> int:
        for _ in range(20):
            found = await on_all(retry_unreachable(link.epoch, patience_s) for link in self.links)
            epoch = max(*found, await asyncio.to_thread(self.store.epoch)) + 1
            # One node after another in a common order: of two controllers one wins the first.
            for link in self.in_lock_order():
                if not await retry_unreachable(partial(link.claim_epoch, epoch), patience_s):
                    break
            else:
                self.on_event(GangEvent("epoch", f"epoch {epoch}", data={"epoch": epoch}))
                return epoch
        raise GangError(
            f"{self.job.job_id}: other controllers claim every epoch; is one in a loop?"
        )

    async def _repeats(self) -> Conclusion:
        """Launch until there is enough, or no use, or no time."""
        await self.raise_when_cancelled()
        while True:
            end = conclude(self.job, self.outcomes)
            if end is not None:
                return end
            steering = RepeatSteering(self, len(self.outcomes) + 1)
            try:
                self.outcomes.append(await steering.run(first=not self.outcomes))
            except TooLate as late:
                self.on_event(GangEvent("repeat", str(late), None, steering.number))
                return conclude_by_deadline(self.job, self.outcomes)

    async def _recorded(self) -> list[RepeatOutcome]:
        """Repeats that were fetched before, from the first without a gap."""
        outcomes: list[RepeatOutcome] = []
        while record := await asyncio.to_thread(self.store.repeat, len(outcomes) + 1):
            number = len(outcomes) + 1
            throughput = None
            if record["status"] == "ok" and self.throughput_of is not None:
                results = await asyncio.to_thread(self.store.results, number)
                throughput = self.throughput_of(record, results)
            outcomes.append(RepeatOutcome.from_record(number, record, throughput))
        return outcomes

    async def _stop_agents(self) -> None:
        """Free the nodes; one that does not answer frees itself when its lease ends."""
        document = {"epoch": self.epoch}
        self.watch.pace(QUICK_S)

        async def stop(link: NodeLink) -> bool:
            if not ((await link.stop_command()) or {}).get("cancelled"):
                await link.command("stop", None, document)
            return True

        told = await call_each(self.links, stop)
        for link in self.links:
            if link.name not in told:
                said = f"could not be stopped: {link.view.silence}"
                self.on_event(GangEvent("lost", said, link.name))
        alive = await call_each(self.links, NodeLink.agent_lives)
        dead = {name for name, lives in alive.items() if not lives}
        until_s = self.clock() + self.job.limits.term_s + STOP_S
        while self.clock() < until_s:
            views = [view for view in await self.watch.look() if view.node not in dead]
            left = [view for view in views if view.agent in (*SERVING, "waiting")]
            if not any(view.answers(self.clock()) for view in left):
                break
        # An agent that was killed could not end what had left its ranks' process groups.
        killed = [link for link in self.links if link.name in dead and link.view.agent != "ended"]
        await self.agents.sweep(killed)

    def _outcome(self, end: Conclusion) -> CaseOutcome:
        faults: dict[str | None, Reason] = {}
        if end.status is CaseStatus.FAILED:
            faults = {fault.node: fault for repeat in self.outcomes for fault in repeat.faults}
        return CaseOutcome(
            end.status, end.reasons, tuple(self.outcomes), faults=tuple(faults.values())
        )
