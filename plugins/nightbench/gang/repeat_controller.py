"""Runs one repeat: claim, prepare, wait until ready, go, drain, finish or abort, collect."""

import asyncio
import dataclasses
from collections.abc import Collection, Coroutine, Mapping
from typing import Any

from nightbench.core.documents import to_document
from nightbench.core.model import ClockOffset, Reason, ReasonCode, reasons_to_json
from nightbench.core.sentences import sentences
from nightbench.gang.decisions import (
    ENDED,
    HEARTBEAT_S,
    PREPARING,
    SERVING,
    GangAction,
    NodeView,
    Timing,
    decide,
    unreachable,
)
from nightbench.gang.errors import DeadlinePassed, NodeError, PodError, faults_of
from nightbench.gang.fanout import FAST_POLL_S, SLOW_POLL_S, CommandSender, call_each
from nightbench.gang.gang_context import AgentSupervisor, GangContext
from nightbench.gang.node_client import NodeClient
from nightbench.gang.progress import GangEvent
from nightbench.gang.repeat_status import RepeatEnd, repeat_end
from nightbench.spool import RepeatOutcome, utc_now

LAUNCHED = ("running", "draining", "done", "failed")
"""States of a repeat whose processes have been started."""

COLLECT_S = 60.0
"""Time after which a missing result is given up."""

FETCH_TIMEOUT_S = 10.0
"""Time limit of one attempt to fetch a result."""

RESTART_S = 2.0
"""Time in which a restart that is under way must show whether the node has rebooted."""


class RepeatController:
    """Runs one repeat, from its claim to its files in the spool."""

    def __init__(self, gang: GangContext, agents: AgentSupervisor, number: int) -> None:
        self.gang = gang
        self.number = number
        self._agents = agents
        self._commands = CommandSender(gang.clients)
        self._clocks: dict[str, ClockOffset] = {}
        self._started_s: dict[str, float] = {}
        """Node -> time of the last restart of its agent."""
        self._faults: dict[str, Reason] = {}
        self._restarting: set[asyncio.Task[None]] = set()
        self._died: set[str] = set()
        """Nodes whose agent was found dead."""

    async def run(self, first: bool) -> RepeatOutcome:
        """Return how the repeat ended.

        Before the `first` launch a node's error ends the case.

        Raises:
            NodeError: only when `first`.
            DeadlinePassed: the repeat was not launched, for it would end after the deadline.
            Superseded: another controller has taken the gang over.
            Cancelled: the job was cancelled.
        """
        gang = self.gang
        gang.monitor.set_interval(FAST_POLL_S)
        gang.monitor.select_repeat(self.number)
        gang.progress.next_repeat()
        started_at, begun = utc_now(), False
        try:
            lost = await gang.lost_pods()
            begun = await self._has_begun_without(lost)
            if begun:
                pod = next(client for client in gang.clients if client.name in lost)
                why = f"before repeat {self.number} ended"
                raise PodError.of_code(pod.transport, why, ReasonCode.POD_DELETED)
            # A repeat that an earlier controller has claimed goes on past the deadline.
            resumed = not lost and await gang.lead.is_claimed(self.number)
            if not resumed:
                self._check_deadline()
                await gang.replace_pods(lost)
            await self._agents.start_all(self.number, optional=not resumed)
            await gang.abort_returned_nodes()
            await self._store_fingerprints()
            if not resumed:
                self._check_deadline()
            began_s, started_at = gang.clock(), utc_now()
            claimed = await gang.lead.claim_repeat(self.number)
        except NodeError as error:
            if first and not begun:
                raise
            if not isinstance(error, PodError) or faults_of(error):
                self._faults[error.node] = error.reason
            failed = RepeatEnd("failed", (error.reason,), (), None, None)
            return await self._record(failed, {}, started_at)
        if not claimed:
            self._report("claimed by an earlier controller: resumed")
        clocks = asyncio.create_task(self._measure_clocks())
        try:
            reasons = await self._drive(clocks, resumed)
            if self._restarting:
                await asyncio.wait(self._restarting, timeout=RESTART_S)
        finally:
            for task in (clocks, *self._restarting):
                task.cancel()
            await self._commands.close()
        results = await self._collect()
        await self._fetch_logs(results)
        end = self._judge(results, reasons)
        batch_end = gang.launcher.take_end() if gang.launcher is not None else None
        if batch_end is not None and end.status == "failed":
            end = dataclasses.replace(end, reasons=(batch_end, *end.reasons))
        if end.status == "ok":
            gang.progress.repeat_ended(gang.clock() - began_s)
        outcome = await self._record(end, results, started_at)
        if outcome.failed:
            await gang.raise_if_cancelled()
        return outcome

    async def _has_begun_without(self, lost: Collection[str]) -> bool:
        """Return whether an earlier controller began the repeat, and has lost a pod of it."""
        left = [client for client in self.gang.clients if client.name not in lost]
        if not lost:
            return False
        return any((await call_each(left, lambda each: each.has_begun(self.number))).values())

    def _check_deadline(self) -> None:
        if self.gang.is_too_late():
            raise DeadlinePassed(f"repeat {self.number} would end after the deadline")

    async def _drive(self, clocks: asyncio.Task[None], resumed: bool) -> tuple[Reason, ...]:
        """Carry out decisions until results can be collected; return the reasons of an abort."""
        gang, job = self.gang, self.gang.job
        timing = Timing(prepared_s=gang.clock())
        reasons: tuple[Reason, ...] = ()
        trainers = [p.name for p in job.processes if p.measured]
        foreign_wait_s = job.neighbours.wait_s if job.neighbours.action == "wait" else 0.0
        await self._write_progress("preparing", timing)
        if resumed:
            await gang.monitor.next_views()
        while True:
            views = [client.view for client in gang.clients]
            now = gang.clock()
            new = {view.node for view in views if view.state is None and view.last_error is None}
            await self._send("prepare", {}, only=new)
            if timing.started_s is None and any(view.state in LAUNCHED for view in views):
                timing = Timing(timing.prepared_s, now, timing.aborted_s)
            decision = decide(views, trainers, timing, job.limits, now, foreign_wait_s)
            if decision.action is GangAction.COLLECT:
                await self._write_progress("collecting", timing)
                return reasons
            if decision.action is GangAction.GO:
                await self._send_start_signal(views, clocks)
                timing = Timing(timing.prepared_s, timing.started_s or now, timing.aborted_s)
            elif decision.action in (GangAction.DRAIN, GangAction.FINISH):
                await self._send(str(decision.action), {})
            elif decision.action is GangAction.RESTART_AGENT:
                self._restart_agents(decision.nodes)
            elif decision.action is GangAction.ABORT:
                reasons = decision.reasons
                self._in_background(self._restart_dead_agents())
                timing = Timing(timing.prepared_s, timing.started_s, now)
                self._record_faults(views)
                self._report(f"aborted: {sentences(reasons)}")
            if timing.aborted_s is not None:
                await self._send("abort", {"reasons": reasons_to_json(reasons)})
            launched = timing.started_s is not None and timing.aborted_s is None
            gang.monitor.set_interval(
                SLOW_POLL_S if launched and self._is_measuring(views) else FAST_POLL_S
            )
            waited_for = _foreign_work(views)
            state = "preparing" if timing.started_s is None else "running"
            await self._write_progress("waiting" if waited_for else state, timing, waited_for)
            await gang.monitor.next_views()
            await gang.raise_if_ended()

    @staticmethod
    def _is_measuring(views: list[NodeView]) -> bool:
        """Return whether a process may be in its measured steps, which polling would disturb."""
        phases = {p.phase for v in views for p in v.processes.values() if p.exit_code is None}
        return not phases or bool(phases - {"finish"})

    async def _send_start_signal(self, views: list[NodeView], clocks: asyncio.Task[None]) -> None:
        ports = {name: port for view in views for name, port in view.ports.items()}
        await clocks
        if not self._commands.was_sent("go"):
            self._report("go")
        await self._send("go", {"ports": ports})

    async def _measure_clocks(self) -> None:
        there = self._answering(self.gang.clients)
        for node, offset in (await call_each(there, NodeClient.clock_offset)).items():
            known = self._clocks.get(node, offset)
            self._clocks[node] = min(known, offset, key=lambda each: each.error_s)

    def _restart_agents(self, nodes: tuple[str, ...]) -> None:
        """Start agents if the last one may have died; a new one writes that into the result."""
        now = self.gang.clock()
        for client in self.gang.clients:
            last_s = self._started_s.get(client.name, float("-inf"))
            if client.name in nodes and now - last_s >= HEARTBEAT_S:
                self._started_s[client.name] = now
                # In the background: the other nodes do not wait for this one.
                self._in_background(self._agents.restart(client))

    async def _restart_dead_agents(self) -> None:
        """Restart agents that have died: ranks of other nodes may fail before that is noticed."""
        serving = [
            client
            for client in self._answering(self.gang.clients)
            if client.view.agent in SERVING and client.view.state not in ENDED
        ]
        running = await call_each(serving, NodeClient.is_agent_running)
        gone = [client for client in serving if running.get(client.name) is False]
        # An agent that ended by itself has written that it ended.
        views = await call_each(gone, lambda client: client.read_state(self.number))
        died = tuple(name for name, view in views.items() if view.agent in SERVING)
        self._died.update(died)
        self._restart_agents(died)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._restarting.add(task)
        task.add_done_callback(self._restarting.discard)

    async def _send(
        self, verb: str, document: Mapping[str, Any], only: set[str] | None = None
    ) -> None:
        await self._commands.send(
            verb, self.number, {"epoch": self.gang.epoch, **document}, only=only
        )

    def _record_faults(self, views: list[NodeView]) -> None:
        lease_s, now = self.gang.job.limits.lease_s, self.gang.clock()
        for view in views:
            if view.rebooted:
                self._faults[view.node] = Reason(ReasonCode.NODE_REBOOTED, view.node)
            elif now - view.answered_s > lease_s:
                self._faults[view.node] = unreachable(view, now - view.answered_s, lease_s)

    # --- results --------------------------------------------------------------------------

    async def _store_fingerprints(self) -> None:
        new = [client for client in self.gang.clients if client.name not in self.gang.fingerprinted]
        found = await call_each(new, NodeClient.fingerprint)
        for node, document in found.items():
            if document is not None:
                await asyncio.to_thread(self.gang.store.save_fingerprint, node, document)
                self.gang.fingerprinted.add(node)

    async def _collect(self) -> dict[str, dict[str, Any]]:
        """Fetch the results of all nodes that answer into the spool; return node -> result.json."""
        gang = self.gang
        results: dict[str, dict[str, Any]] = {}
        until_s = gang.clock() + COLLECT_S
        clocks = asyncio.create_task(self._measure_clocks())
        try:
            while True:
                missing = [client for client in gang.clients if client.name not in results]
                # An agent that was restarted writes a result before its first state.
                starting = {
                    client.name
                    for client in missing
                    if client.name in self._started_s and client.view.agent is None
                }
                there = self._answering(missing)
                found = await call_each(
                    there, lambda client: client.result(self.number), FETCH_TIMEOUT_S
                )
                for node, document in found.items():
                    if document is not None:
                        await asyncio.to_thread(gang.store.save_result, self.number, node, document)
                        results[node] = document
                # A node writes its result just before or after its last state.
                awaited = [
                    client
                    for client in gang.clients
                    if client.name not in results
                    and (client.view.state in ENDED or client.name in starting)
                ]
                if not awaited or gang.clock() > until_s:
                    await clocks
                    return results
                await gang.monitor.next_views()
                await gang.raise_if_ended()
        finally:
            clocks.cancel()

    async def _fetch_logs(self, results: Mapping[str, Mapping[str, Any]]) -> None:
        """Fetch the ends of the ranks' logs; what a node does not give in time stays there."""
        gang = self.gang

        async def fetch(client: NodeClient) -> None:
            for process in results[client.name].get("processes") or ():
                content = await client.log_end(self.number, process["name"])
                if content:
                    await asyncio.to_thread(
                        gang.store.save_log, self.number, process["name"], content
                    )

        await call_each(
            [client for client in self._answering(gang.clients) if client.name in results],
            fetch,
            FETCH_TIMEOUT_S,
        )

    def _answering(self, clients: list[NodeClient]) -> list[NodeClient]:
        now = self.gang.clock()
        return [client for client in clients if client.view.answers(now)]

    def _judge(self, results: dict[str, dict[str, Any]], reasons: tuple[Reason, ...]) -> RepeatEnd:
        """Return how the repeat ended; deaths of agents are faults of their nodes."""
        end = repeat_end(
            [client.name for client in self.gang.clients],
            results,
            reasons,
            clocks=self._clocks,
            rebooted={client.name for client in self.gang.clients if client.view.rebooted},
            died=self._died,
            abort_was_sent=self._commands.was_sent("abort"),
            counts_disturbance=self.gang.job.neighbours.action != "record",
        )
        if end.status in ("aborted", "failed"):
            self._faults |= {str(death.node): death for death in end.deaths}
        return end

    async def _record(
        self, end: RepeatEnd, results: dict[str, dict[str, Any]], started_at: str
    ) -> RepeatOutcome:
        """Write controller.json, which ends the repeat for every controller."""
        record = end.record(
            self.number,
            [client.name for client in self.gang.clients],
            results,
            epoch=self.gang.epoch,
            faults=self._faults.values(),
            started_at=started_at,
            ended_at=utc_now(),
            clocks={name: to_document(clock) for name, clock in self._clocks.items()},
        )
        throughput = None
        if end.status == "ok" and self.gang.throughput_of is not None:
            throughput = await asyncio.to_thread(self.gang.throughput_of, record, results)
        await self.gang.raise_if_superseded()
        await asyncio.to_thread(self.gang.store.save_repeat, self.number, record)
        self._report(f"{end.status}: {sentences(end.reasons)}" if end.reasons else end.status)
        return RepeatOutcome.from_record(self.number, record, throughput)

    def _report(self, message: str) -> None:
        self.gang.on_event(GangEvent("repeat", message))

    async def _write_progress(self, state: str, timing: Timing, message: str = "") -> None:
        gang = self.gang
        since_s = timing.started_s if timing.started_s is not None else timing.prepared_s
        await gang.write_progress(state, self.number, message, running_s=gang.clock() - since_s)


def _foreign_work(views: list[NodeView]) -> str:
    found = sentences(r for view in views if view.state == PREPARING for r in view.reasons)
    return f"waiting for foreign work to end: {found}" if found else ""
