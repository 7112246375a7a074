"""One repeat: claim, prepare, barrier, go, watch, drain, finish or abort, collect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nightbench.core.model import (
    ClockOffset,
    Reason,
    ReasonCode,
    reasons_from_json,
    reasons_to_json,
)
from nightbench.core.sentences import sentences
from nightbench.gang.agents import TooLate
from nightbench.gang.decisions import (
    ENDED,
    HEARTBEAT_S,
    PREPARING,
    Act,
    NodeView,
    Timing,
    decide,
    unreachable,
)
from nightbench.gang.errors import GangError, NodeError
from nightbench.gang.fanout import CALM_S, QUICK_S, CommandSender, call_each
from nightbench.gang.link import NodeLink
from nightbench.gang.node_access import more_precise
from nightbench.gang.progress import GangEvent
from nightbench.spool import RepeatOutcome, utc_now

if TYPE_CHECKING:
    from nightbench.gang.steer import Gang

COLLECT_S = 60.0
"""How long results are asked for, where a node does not answer."""

FETCH_S = 10.0
"""What one result may take; it is asked for again until `COLLECT_S`."""

REVIVED_S = 2.0
"""What a node that had fallen mute may take to say whether it was rebooted."""


class Cancelled(GangError):
    """Somebody ended the job with `cancel`; `reasons` say who and why."""

    def __init__(self, reasons: Sequence[Reason]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(sentences(self.reasons))


class RepeatSteering:
    """Takes one repeat from its claim to its files in the spool.

    Args:
        gang: the gang.
        number: the repeat, from 1.
    """

    def __init__(self, gang: Gang, number: int) -> None:
        self.gang = gang
        self.number = number
        self._commands = CommandSender(gang.links)
        self._clocks: dict[str, ClockOffset] = {}
        self._started_s: dict[str, float] = {}
        """When `start` was called on a node that had fallen silent."""
        self._faults: dict[str, Reason] = {}
        self._reviving: set[asyncio.Task[None]] = set()

    async def run(self, first: bool) -> RepeatOutcome:
        """The whole repeat.

        Args:
            first: nothing was launched yet, so that a node's error may end the case as it is.

        Raises:
            NodeError: only when `first`.
            TooLate: it could not end before the job's deadline, and was not launched.
            Superseded: another controller goes on with it.
            Cancelled: the job was ended.
        """
        gang = self.gang
        gang.watch.pace(QUICK_S)
        gang.watch.next_repeat(self.number)
        gang.progress.next_repeat()
        started_at = utc_now()
        try:
            # One that a controller before has taken goes on, whatever the time is.
            found = await gang.lead.claimed(self.number)
            self._in_time(found)
            await gang.agents.ensure(self.number, may_leave=not found)
            await gang.settle()
            await self._keep_fingerprints()
            self._in_time(found)
            began_s, started_at = gang.clock(), utc_now()
            claimed = await gang.lead.claim_repeat(self.number)
        except NodeError as error:
            if first:
                raise
            self._faults[error.node] = error.reason
            return await self._record("failed", (error.reason,), {}, started_at)
        if not claimed:
            gang.on_event(GangEvent("repeat", "found claimed: going on with it", None, self.number))
        clocks = asyncio.create_task(self._measure_clocks())
        try:
            reasons = await self._steer(clocks, found)
            if self._reviving:
                await asyncio.wait(self._reviving, timeout=REVIVED_S)
        finally:
            for task in (clocks, *self._reviving):
                task.cancel()
            await self._commands.close()
        results = await self._collect()
        status, reasons = self._judge(results, reasons)
        if status == "ok":
            gang.progress.repeat_ended(gang.clock() - began_s)
        outcome = await self._record(status, reasons, results, started_at)
        if outcome.failed:
            await gang.raise_when_cancelled()
        return outcome

    def _in_time(self, found: bool) -> None:
        if not found and self.gang.too_late():
            raise TooLate(f"repeat {self.number} could not end before the deadline")

    async def _steer(self, clocks: asyncio.Task[None], found: bool) -> tuple[Reason, ...]:
        """Act until there is something to collect; returns the reasons of an abort."""
        gang, job = self.gang, self.gang.job
        timing = Timing(prepared_s=gang.clock())
        reasons: tuple[Reason, ...] = ()
        trainers = [p.name for p in job.processes if p.measured]
        patience_s = job.neighbours.wait_s if job.neighbours.action == "wait" else 0.0
        await self._tell("preparing", timing)
        if found:
            await gang.watch.look()
        while True:
            views = [link.view for link in gang.links]
            now = gang.clock()
            await self._prepare_where_needed(views)
            if timing.gone_s is None and any(_running(view) for view in views):
                timing = Timing(timing.prepared_s, now, timing.aborted_s)
            decision = decide(views, trainers, timing, job.limits, now, patience_s)
            if decision.act is Act.COLLECT:
                await self._tell("collecting", timing)
                return reasons
            if decision.act is Act.GO:
                await self._go(views, clocks)
                timing = Timing(timing.prepared_s, timing.gone_s or now, timing.aborted_s)
            elif decision.act in (Act.DRAIN, Act.FINISH):
                await self._send(str(decision.act), {})
            elif decision.act is Act.START:
                self._look_after(decision.nodes)
            elif decision.act is Act.ABORT:
                reasons = decision.reasons
                timing = Timing(timing.prepared_s, timing.gone_s, now)
                self._blame(views)
                gang.on_event(
                    GangEvent("repeat", f"aborted: {sentences(reasons)}", None, self.number)
                )
            if timing.aborted_s is not None:
                await self._send("abort", {"reasons": reasons_to_json(reasons)})
            calm = timing.gone_s is not None and timing.aborted_s is None
            gang.watch.pace(CALM_S if calm and self._stepping(views) else QUICK_S)
            waited_for = _neighbours(views)
            state = "preparing" if timing.gone_s is None else "running"
            await self._tell("waiting" if waited_for else state, timing, waited_for)
            await gang.watch.look()
            await gang.check()

    @staticmethod
    def _stepping(views: list[NodeView]) -> bool:
        """Whether some process is in the part that must not be disturbed."""
        phases = {p.phase for v in views for p in v.processes.values() if p.exit_code is None}
        return not phases or bool(phases - {"finish"})

    async def _prepare_where_needed(self, views: list[NodeView]) -> None:
        """Ask for the repeat on nodes that show nothing of it yet."""
        new = {view.node for view in views if view.state is None and view.silence is None}
        await self._send("prepare", {}, only=new)

    async def _go(self, views: list[NodeView], clocks: asyncio.Task[None]) -> None:
        """All are ready: tell everybody all ports, once the clocks are measured."""
        ports = {name: port for view in views for name, port in view.ports.items()}
        await clocks
        if not self._commands.was_sent("go"):
            self.gang.on_event(GangEvent("repeat", "go", None, self.number, data={"ports": ports}))
        await self._send("go", {"ports": ports})

    async def _measure_clocks(self) -> None:
        there = self._answering(self.gang.links)
        for node, offset in (await call_each(there, NodeLink.clock_offset)).items():
            best = more_precise(self._clocks.get(node), offset)
            if best is not None:
                self._clocks[node] = best

    def _look_after(self, nodes: tuple[str, ...]) -> None:
        """Nothing is heard of an agent: when it has died, a new one says so in the result."""
        now = self.gang.clock()
        for link in self.gang.links:
            last_s = self._started_s.get(link.name, float("-inf"))
            if link.name in nodes and now - last_s >= HEARTBEAT_S:
                self._started_s[link.name] = now
                # Beside the steering: the other nodes do not wait for one that is in trouble.
                task = asyncio.create_task(self.gang.agents.revive(link, self.number))
                self._reviving.add(task)
                task.add_done_callback(self._reviving.discard)

    async def _send(
        self, verb: str, document: Mapping[str, Any], only: set[str] | None = None
    ) -> None:
        await self._commands.send(
            verb, self.number, {"epoch": self.gang.epoch, **document}, only=only
        )

    def _blame(self, views: list[NodeView]) -> None:
        """Note what is wrong with nodes as nodes, beside what their processes did."""
        lease_s, now = self.gang.job.limits.lease_s, self.gang.clock()
        for view in views:
            if view.rebooted:
                self._faults[view.node] = Reason(ReasonCode.NODE_REBOOTED, view.node)
            elif now - view.heard_s > lease_s:
                self._faults[view.node] = unreachable(view, now - view.heard_s, lease_s)

    # --- what is kept ---------------------------------------------------------------------

    async def _keep_fingerprints(self) -> None:
        new = [link for link in self.gang.links if link.name not in self.gang.known]
        found = await call_each(new, NodeLink.fingerprint)
        for node, document in found.items():
            if document is not None:
                if await asyncio.to_thread(self.gang.store.fingerprint, node) is None:
                    await asyncio.to_thread(self.gang.store.save_fingerprint, node, document)
                self.gang.known.add(node)

    async def _collect(self) -> dict[str, dict[str, Any]]:
        """Fetch every result that can be had, into the spool."""
        gang = self.gang
        results: dict[str, dict[str, Any]] = {}
        until_s = gang.clock() + COLLECT_S
        clocks = asyncio.create_task(self._measure_clocks())
        try:
            while True:
                missing = [link for link in gang.links if link.name not in results]
                there = self._answering(missing)
                found = await call_each(there, lambda link: link.result(self.number), FETCH_S)
                for node, document in found.items():
                    if document is not None:
                        await asyncio.to_thread(gang.store.save_result, self.number, node, document)
                        results[node] = document
                # Without an ending state there is no result to wait for.
                awaited = [
                    link
                    for link in gang.links
                    if link.name not in results and link.view.state in ENDED
                ]
                if not awaited or gang.clock() > until_s:
                    await clocks
                    return results
                await gang.watch.look()
                await gang.check()
        finally:
            clocks.cancel()

    def _answering(self, links: list[NodeLink]) -> list[NodeLink]:
        now = self.gang.clock()
        return [link for link in links if link.view.answers(now)]

    def _judge(
        self, results: dict[str, dict[str, Any]], reasons: tuple[Reason, ...]
    ) -> tuple[str, tuple[Reason, ...]]:
        """Status and reasons of the repeat: all nodes must have ended well, and undisturbed."""
        names = [link.name for link in self.gang.links]
        bad = {name: results[name] for name in names if name in results}
        bad = {name: r for name, r in bad.items() if r.get("status") != "ok"}
        missing = [name for name in names if name not in results]
        if not bad and not missing and not reasons:
            disturbed = self._disturbed(results)
            return ("disturbed" if disturbed else "ok"), disturbed
        failed = [name for name, r in bad.items() if r.get("status") == "failed"]
        if not reasons and bad:
            reasons = reasons_from_json(bad[(failed or list(bad))[0]]["reasons"])
        if not reasons:
            reasons = tuple(Reason(ReasonCode.NO_RESULT, name) for name in missing)
        for link in self.gang.links:
            if link.view.rebooted:
                rebooted = Reason(ReasonCode.NODE_REBOOTED, link.name)
                self._faults[link.name] = rebooted
                reasons = tuple(dict.fromkeys((rebooted, *reasons)))
        aborted = not failed and not missing and bool(bad) and not self._commands.was_sent("abort")
        return ("aborted" if aborted else "failed"), reasons

    def _disturbed(self, results: dict[str, dict[str, Any]]) -> tuple[Reason, ...]:
        """Who else worked on the nodes inside the window; empty where it does not matter."""
        if self.gang.job.neighbours.action == "record":
            return ()
        return tuple(
            reason
            for _, document in sorted(results.items())
            for reason in reasons_from_json((document.get("disturbed") or {}).get("reasons"))
        )

    async def _record(
        self,
        status: str,
        reasons: tuple[Reason, ...],
        results: dict[str, dict[str, Any]],
        started_at: str,
    ) -> RepeatOutcome:
        """Write controller.json: from then on the repeat is over for every controller."""
        record = {
            "repeat": self.number,
            "status": status,
            "reasons": reasons_to_json(reasons),
            "log_tail": log_tail(results),
            "started_at": started_at,
            "ended_at": utc_now(),
            "epoch": self.gang.epoch,
            "missing": [link.name for link in self.gang.links if link.name not in results],
            "faults": reasons_to_json(self._faults.values()),
            "clocks": {
                name: {"offset_s": clock.offset_s, "error_s": clock.error_s}
                for name, clock in self._clocks.items()
            },
        }
        throughput = None
        if status == "ok" and self.gang.throughput_of is not None:
            throughput = await asyncio.to_thread(self.gang.throughput_of, record, results)
        await self.gang.fence()
        await asyncio.to_thread(self.gang.store.save_repeat, self.number, record)
        said = f"{status}: {sentences(reasons)}" if reasons else status
        self.gang.on_event(GangEvent("repeat", said, None, self.number, data=record))
        return RepeatOutcome.from_record(self.number, record, throughput)

    async def _tell(self, state: str, timing: Timing, message: str = "") -> None:
        gang = self.gang
        since_s = timing.gone_s if timing.gone_s is not None else timing.prepared_s
        await gang.tell(state, self.number, message, running_s=gang.clock() - since_s)


def _running(view: NodeView) -> bool:
    return view.state in ("running", "draining", "done", "failed")


def _neighbours(views: list[NodeView]) -> str:
    """What nodes say that are not ready because somebody else works there; empty if none is."""
    said = sentences(r for view in views if view.state == PREPARING for r in view.reasons)
    return f"waiting for neighbours: {said}" if said else ""


def log_tail(results: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The end of the worst node's log, and where a process of it hung."""
    order = {"failed": 0, "aborted": 1}
    worst = sorted(results.items(), key=lambda pair: order.get(str(pair[1].get("status")), 2))
    for node, result in worst:
        stacks = [
            f"[{node} {process.get('name')}: stack]\n{process['stack']}"
            for process in result.get("processes") or ()
            if process.get("stack")
        ]
        parts = [*stacks, *([result["log_tail"]] if result.get("log_tail") else [])]
        if parts:
            return "\n".join(parts)
    return None
