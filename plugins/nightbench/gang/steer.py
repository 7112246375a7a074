"""Steering a gang through the repeats of a case, from any point where a controller left it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from nightbench.gang.errors import GangError, NodeError, Superseded
from nightbench.gang.events import CaseOutcome, GangEvent, OnEvent, RepeatOutcome, ignore
from nightbench.gang.link import NodeLink
from nightbench.gang.login import SshTarget
from nightbench.gang.machine import SERVING
from nightbench.gang.progress import Progress
from nightbench.gang.provisioning import Connect, connections, on_all
from nightbench.gang.repeat import Cancelled, RepeatSteering
from nightbench.gang.ssh import SshTransport
from nightbench.gang.transport import Transport
from nightbench.gang.watch import QUICK_S, Watch
from nightbench.model import CaseStatus, JobSpec
from nightbench.spool import CaseStore, utc_now

FAILURES_IN_A_ROW = 2
STOP_S = 30.0
"""What agents may take to let go of their nodes, beyond the time to terminate."""


async def run_gang(
    job: JobSpec,
    targets: Mapping[str, SshTarget],
    store: CaseStore,
    on_event: OnEvent = ignore,
    connect: Connect = SshTransport,
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

    Raises:
        NodeError: a node cannot be reached or refuses before anything was launched.
        Superseded: another controller steers the gang now.
    """
    known = await asyncio.to_thread(store.outcome)
    if known is not None:
        return CaseOutcome.from_json(known)
    async with connections(job.nodes, targets, connect) as transports:
        gang = Gang(job, transports, store, on_event)
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
    """

    def __init__(
        self,
        job: JobSpec,
        transports: Mapping[str, Transport],
        store: CaseStore,
        on_event: OnEvent = ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.job = job
        self.store = store
        self.on_event = on_event
        self.clock = clock
        self.links = [NodeLink(job, node, transports[node.name], clock) for node in job.nodes]
        self.progress = Progress(job)
        self.epoch = 0
        self.watch = Watch([], 0, job.limits.lease_s, on_event, clock)
        self._told_s = 0.0

    @property
    def lead(self) -> NodeLink:
        """The node that claims repeats."""
        return self.links[0]

    def in_lock_order(self) -> list[NodeLink]:
        """The nodes in the one order in which every gang takes locks, so that none deadlock."""
        return sorted(self.links, key=lambda link: (link.transport.address, link.name))

    async def run(self) -> CaseOutcome:
        """Steer from wherever the gang stands to its outcome."""
        await on_all(link.open() for link in self.links)
        self.epoch = await self._claim_epoch()
        self.watch = Watch(
            self.links, self.epoch, self.job.limits.lease_s, self.on_event, self.clock
        )
        self.watch.open()
        try:
            outcome = await self._repeats()
        except Cancelled as cancelled:
            outcome = self._outcome(CaseStatus.CANCELLED, str(cancelled), await self._recorded())
        await self._stop_agents()
        await asyncio.to_thread(self.store.save_outcome, outcome.to_json())
        said = outcome.reason or f"{len(outcome.repeats)} repeats"
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
        for link in self.links:
            stop = await self._unless_silent(link)
            if stop and stop.get("cancelled"):
                raise Cancelled(str(stop.get("reason") or "cancelled"))

    async def ensure_agents(self, repeat: int) -> None:
        """Have an agent on every node that holds the node's lock.

        Raises:
            NodeError: a node does not answer for as long as a lease, or an agent cannot start.
        """
        for link in self.in_lock_order():
            await self._ensure_agent(link, repeat)

    # --- the parts of a run ---------------------------------------------------------------

    async def _claim_epoch(self) -> int:
        for _ in range(20):
            epoch = max(await on_all(link.epoch() for link in self.links)) + 1
            # One node after another in a common order: of two controllers one wins the first.
            for link in self.in_lock_order():
                if not await link.claim_epoch(epoch):
                    break
            else:
                self.on_event(GangEvent("epoch", f"epoch {epoch}", data={"epoch": epoch}))
                return epoch
        raise GangError(
            f"{self.job.job_id}: other controllers claim every epoch; is one in a loop?"
        )

    async def _repeats(self) -> CaseOutcome:
        outcomes = await self._recorded()
        number = len(outcomes)
        await self.raise_when_cancelled()
        while number < self.job.protocol.repeats:
            if _failing(outcomes):
                break
            number += 1
            steering = RepeatSteering(self, number)
            outcomes.append(await steering.run(first=not outcomes))
        if _failing(outcomes) or not any(r.status == "ok" for r in outcomes):
            last = outcomes[-1]
            count = sum(r.status != "ok" for r in outcomes)
            reason = f"{count} of {len(outcomes)} launches failed, the last: {last.reason}"
            return self._outcome(CaseStatus.FAILED, reason, outcomes)
        return self._outcome(CaseStatus.OK, None, outcomes)

    async def _recorded(self) -> list[RepeatOutcome]:
        """Repeats that were fetched before, from the first without a gap."""
        outcomes: list[RepeatOutcome] = []
        while record := await asyncio.to_thread(self.store.repeat, len(outcomes) + 1):
            outcomes.append(
                RepeatOutcome(len(outcomes) + 1, record["status"], record.get("reason"))
            )
        return outcomes

    async def _ensure_agent(self, link: NodeLink, repeat: int) -> None:
        started = 0
        told: object = None
        called_s: float | None = None
        while True:
            now = self.clock()
            if called_s is None or (link.view.agent not in (*SERVING, "waiting")):
                if started >= 3:
                    raise NodeError(
                        link.name,
                        link.transport.address,
                        f"the agent ends at once: {link.view.agent_reason}; see agent.out and "
                        "agent.jsonl in its job folder",
                    )
                try:
                    await link.renew(self.epoch)
                    if await link.start_agent():
                        started += 1
                        self.on_event(GangEvent("agent", "agent started", link.name))
                    called_s = self.clock()
                    await link.look(self.watch.repeat)
                except NodeError as error:
                    # Short cuts survive; a node that stays away is reported with its last error.
                    if now - link.view.heard_s > self.job.limits.lease_s:
                        raise
                    link.unheard(error)
            if called_s is not None and link.view.agent in SERVING:
                return
            holder = link.view.holder
            if link.view.agent == "waiting" and holder != told:
                told = holder
                await self._say_waiting(link, repeat, holder)
            await self.watch.look()
            await self.check()

    async def _say_waiting(
        self, link: NodeLink, repeat: int, holder: Mapping[str, object] | None
    ) -> None:
        who = holder or {}
        message = (
            f"waiting for node {link.name}: {who.get('job_id', 'somebody')} of "
            f"{who.get('user', '?')} has it since {who.get('since', '?')}"
        )
        self.on_event(GangEvent("waiting", message, link.name, data=dict(who)))
        await self.tell("waiting", repeat, message, force=True)

    async def _unless_silent(self, link: NodeLink) -> dict[str, Any] | None:
        try:
            return await link.stop_command()
        except NodeError as error:
            link.unheard(error)
            return None

    async def _stop_agents(self) -> None:
        """Free the nodes; one that does not answer frees itself when its lease ends."""
        document = {"epoch": self.epoch, "reason": "finished"}
        self.watch.pace(QUICK_S)

        async def stop(link: NodeLink) -> None:
            try:
                if not ((await link.stop_command()) or {}).get("cancelled"):
                    await link.command("stop", None, document)
            except NodeError as error:
                link.unheard(error)
                self.on_event(GangEvent("lost", f"could not be stopped: {error}", link.name))

        await asyncio.gather(*(stop(link) for link in self.links))
        until_s = self.clock() + self.job.limits.term_s + STOP_S
        while self.clock() < until_s:
            views = await self.watch.look()
            if all(view.agent not in (*SERVING, "waiting") or view.silence for view in views):
                return

    def _outcome(
        self, status: CaseStatus, reason: str | None, repeats: list[RepeatOutcome]
    ) -> CaseOutcome:
        return CaseOutcome(status, reason, tuple(repeats), utc_now())


def _failing(outcomes: list[RepeatOutcome]) -> bool:
    """Whether the last launches failed, so often in a row that another would be no use."""
    last = outcomes[-FAILURES_IN_A_ROW:]
    return len(last) == FAILURES_IN_A_ROW and all(r.status != "ok" for r in last)
