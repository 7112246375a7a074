"""One repeat: claim, prepare, barrier, go, watch, drain, finish or abort, collect."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from nightbench.gang.clock import closer
from nightbench.gang.errors import GangError, NodeError
from nightbench.gang.events import GangEvent, RepeatOutcome
from nightbench.gang.link import NodeLink
from nightbench.gang.machine import HEARTBEAT_S, Act, NodeView, Timing, decide
from nightbench.gang.watch import CALM_S, QUICK_S
from nightbench.model import ClockOffset
from nightbench.spool import utc_now

if TYPE_CHECKING:
    from nightbench.gang.steer import Gang

COLLECT_S = 60.0
"""How long results are asked for, where a node does not answer."""


class Cancelled(GangError):
    """Somebody ended the job with `cancel`."""


class RepeatSteering:
    """Takes one repeat from its claim to its files in the spool.

    Args:
        gang: the gang.
        number: the repeat, from 1.
    """

    def __init__(self, gang: Gang, number: int) -> None:
        self.gang = gang
        self.number = number
        self._sent: set[tuple[str, str]] = set()
        self._clocks: dict[str, ClockOffset] = {}
        self._started_s: dict[str, float] = {}
        """When `start` was called on a node that had fallen silent."""

    async def run(self, first: bool) -> RepeatOutcome:
        """The whole repeat.

        Args:
            first: nothing was launched yet, so that a node's error may end the case as it is.

        Raises:
            NodeError: only when `first`.
            Superseded: another controller goes on with it.
            Cancelled: the job was ended.
        """
        gang = self.gang
        gang.watch.pace(QUICK_S)
        gang.watch.next_repeat(self.number)
        gang.progress.next_repeat()
        began_s, started_at = gang.clock(), utc_now()
        try:
            await gang.ensure_agents(self.number)
            await self._keep_fingerprints()
            claimed = await gang.lead.claim_repeat(self.number)
        except NodeError as error:
            if first:
                raise
            return await self._record("failed", str(error), {}, started_at)
        if not claimed:
            gang.on_event(GangEvent("repeat", "found claimed: going on with it", None, self.number))
        reason = await self._steer()
        results = await self._collect()
        status, reason = self._judge(results, reason)
        if status == "ok":
            gang.progress.repeat_ended(gang.clock() - began_s)
        outcome = await self._record(status, reason, results, started_at)
        if status != "ok":
            await gang.raise_when_cancelled()
        return outcome

    async def _steer(self) -> str | None:
        """Act until there is something to collect; returns the reason of an abort."""
        gang = self.gang
        timing = Timing(prepared_s=gang.clock())
        reason: str | None = None
        trainers = [p.name for p in gang.job.processes if p.role == "trainer"]
        await self._tell("preparing", timing)
        while True:
            views = await gang.watch.look()
            await gang.check()
            now = gang.clock()
            await self._prepare_where_needed(views)
            if timing.gone_s is None and any(_running(view) for view in views):
                timing = Timing(timing.prepared_s, now, timing.aborted_s)
            decision = decide(views, trainers, timing, gang.job.limits, now)
            if decision.act is Act.COLLECT:
                await self._tell("collecting", timing)
                return reason
            if decision.act is Act.GO:
                await self._go(views)
                timing = Timing(timing.prepared_s, timing.gone_s or now, timing.aborted_s)
            elif decision.act in (Act.DRAIN, Act.FINISH):
                await self._send(str(decision.act), {})
            elif decision.act is Act.START:
                await self._look_after(decision.nodes)
            elif decision.act is Act.ABORT:
                reason = decision.reason
                timing = Timing(timing.prepared_s, timing.gone_s, now)
                gang.on_event(GangEvent("repeat", f"aborted: {reason}", None, self.number))
            if timing.aborted_s is not None:
                await self._send("abort", {"reason": reason})
            calm = timing.gone_s is not None and timing.aborted_s is None
            gang.watch.pace(CALM_S if calm and self._stepping(views) else QUICK_S)
            await self._tell("preparing" if timing.gone_s is None else "running", timing)

    @staticmethod
    def _stepping(views: list[NodeView]) -> bool:
        """Whether some process is in the part that must not be disturbed."""
        phases = {p.phase for v in views for p in v.processes.values() if p.exit_code is None}
        return not phases or bool(phases - {"finish"})

    async def _prepare_where_needed(self, views: list[NodeView]) -> None:
        """Ask for the repeat on nodes that show nothing of it yet."""
        new = [view.node for view in views if view.state is None and view.silence is None]
        await self._send("prepare", {}, only=new)

    async def _go(self, views: list[NodeView]) -> None:
        """All are ready: measure the clocks, then tell everybody all ports."""
        ports = {name: port for view in views for name, port in view.ports.items()}
        if not self._clocks:
            await self._measure_clocks()
            self.gang.on_event(GangEvent("repeat", "go", None, self.number, data={"ports": ports}))
        await self._send("go", {"ports": ports})

    async def _measure_clocks(self) -> None:
        for link in self.gang.links:
            try:
                offset = await link.clock_offset()
            except NodeError as error:
                link.unheard(error)
                continue
            best = closer(self._clocks.get(link.name), offset)
            if best is not None:
                self._clocks[link.name] = best

    async def _look_after(self, nodes: tuple[str, ...]) -> None:
        """Nothing is heard of an agent: when it has died, a new one says so in the result."""
        for link in self.gang.links:
            now = self.gang.clock()
            last_s = self._started_s.get(link.name, float("-inf"))
            if link.name not in nodes or now - last_s < HEARTBEAT_S:
                continue
            self._started_s[link.name] = now
            try:
                if await link.start_agent():
                    self.gang.on_event(
                        GangEvent("agent", "the agent had died", link.name, self.number)
                    )
            except NodeError as error:
                link.unheard(error)

    async def _send(
        self, verb: str, document: dict[str, Any], only: list[str] | None = None
    ) -> None:
        """Give a command to every node that has not got it from this controller."""

        async def send(link: NodeLink) -> None:
            if (verb, link.name) in self._sent or (only is not None and link.name not in only):
                return
            try:
                await link.command(verb, self.number, {"epoch": self.gang.epoch, **document})
            except NodeError as error:
                link.unheard(error)
            else:
                self._sent.add((verb, link.name))

        await asyncio.gather(*(send(link) for link in self.gang.links))

    # --- what is kept ---------------------------------------------------------------------

    async def _keep_fingerprints(self) -> None:
        for link in self.gang.links:
            if await asyncio.to_thread(self.gang.store.fingerprint, link.name) is None:
                document = await link.fingerprint()
                if document is not None:
                    await asyncio.to_thread(self.gang.store.save_fingerprint, link.name, document)

    async def _collect(self) -> dict[str, dict[str, Any]]:
        """Fetch every result that can be had, into the spool."""
        gang = self.gang
        results: dict[str, dict[str, Any]] = {}
        until_s = gang.clock() + COLLECT_S
        await self._measure_clocks()
        while True:
            missing = [link for link in gang.links if link.name not in results]
            for link in missing:
                try:
                    document = await link.result(self.number)
                except NodeError as error:
                    link.unheard(error)
                    continue
                if document is not None:
                    await asyncio.to_thread(
                        gang.store.save_result, self.number, link.name, document
                    )
                    results[link.name] = document
            # Without an ending state there is no result to wait for.
            awaited = [
                link
                for link in gang.links
                if link.name not in results and link.view.state in ("done", "failed", "aborted")
            ]
            if not awaited or gang.clock() > until_s:
                return results
            await gang.watch.look()
            await gang.check()

    def _judge(
        self, results: dict[str, dict[str, Any]], reason: str | None
    ) -> tuple[str, str | None]:
        """Status and reason of the repeat: all nodes must have ended well."""
        names = [link.name for link in self.gang.links]
        bad = {name: results[name] for name in names if name in results}
        bad = {name: r for name, r in bad.items() if r.get("status") != "ok"}
        missing = [name for name in names if name not in results]
        if not bad and not missing and reason is None:
            return "ok", None
        failed = [name for name, r in bad.items() if r.get("status") == "failed"]
        if reason is None and (failed or bad):
            name = (failed or list(bad))[0]
            reason = f"{name}: {bad[name].get('reason')}"
        if reason is None:
            reason = f"no result from {', '.join(missing)}"
        aborted = not failed and not missing and bool(bad) and not self._sent_abort()
        return ("aborted" if aborted else "failed"), reason

    def _sent_abort(self) -> bool:
        return any(verb == "abort" for verb, _ in self._sent)

    async def _record(
        self,
        status: str,
        reason: str | None,
        results: dict[str, dict[str, Any]],
        started_at: str,
    ) -> RepeatOutcome:
        """Write controller.json: from then on the repeat is over for every controller."""
        tails = [r.get("log_tail") for r in _worst_first(results) if r.get("log_tail")]
        record = {
            "repeat": self.number,
            "status": status,
            "reason": reason,
            "log_tail": tails[0] if tails else None,
            "started_at": started_at,
            "ended_at": utc_now(),
            "epoch": self.gang.epoch,
            "missing": [link.name for link in self.gang.links if link.name not in results],
            "clocks": {
                name: {"offset_s": clock.offset_s, "error_s": clock.error_s}
                for name, clock in self._clocks.items()
            },
        }
        await asyncio.to_thread(self.gang.store.save_repeat, self.number, record)
        said = status if reason is None else f"{status}: {reason}"
        self.gang.on_event(GangEvent("repeat", said, None, self.number, data=record))
        return RepeatOutcome(self.number, status, reason)

    async def _tell(self, state: str, timing: Timing) -> None:
        gang = self.gang
        since_s = timing.gone_s if timing.gone_s is not None else timing.prepared_s
        await gang.tell(state, self.number, running_s=gang.clock() - since_s)


def _running(view: NodeView) -> bool:
    return view.state in ("running", "draining", "done", "failed")


def _worst_first(results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    order = {"failed": 0, "aborted": 1}
    return sorted(results.values(), key=lambda r: order.get(str(r.get("status")), 2))
