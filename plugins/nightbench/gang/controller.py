"""Takes a gang through all repeats of a case, from any state in which a controller left it."""

import asyncio
from collections.abc import Mapping
from functools import partial

from nightbench.core.model import CaseStatus, JobSpec, Reason
from nightbench.gang.decisions import SERVING, Conclusion, conclude, conclude_by_deadline
from nightbench.gang.errors import Cancelled, DeadlinePassed, GangError, NodeError
from nightbench.gang.fanout import FAST_POLL_S, call_each, retry_unreachable
from nightbench.gang.gang_context import AgentSupervisor, GangContext, ThroughputOf
from nightbench.gang.node_access import connections, on_all
from nightbench.gang.node_client import NodeClient
from nightbench.gang.pods import pods_of
from nightbench.gang.progress import GangEvent, OnEvent, ignore
from nightbench.gang.provisioning import prepare
from nightbench.gang.repeat_controller import RepeatController
from nightbench.gang.shipping import Shipment
from nightbench.gang.slurm_launcher import launcher_of
from nightbench.gang.transport import Target
from nightbench.spool import CaseOutcome, CaseStore, RepeatOutcome

STOP_S = 30.0
"""Time in which agents must release their nodes, beyond the job's time to terminate."""

EPOCH_ATTEMPTS = 20


async def run_gang(
    job: JobSpec,
    targets: Mapping[str, Target],
    store: CaseStore,
    on_event: OnEvent = ignore,
    throughput_of: ThroughputOf | None = None,
    shipment: Shipment | None = None,
) -> CaseOutcome:
    """Measure a case: all its repeats, one fresh launch of the gang each.

    It may be called again after any interruption. Repeats that have ended are fetched, a running
    one is watched further, none is launched twice, and the outcome of a case that has ended is
    returned at once. Cancelling the task leaves the gang running until its lease expires; `cancel`
    ends it. Without `throughput_of` an adaptive protocol launches its largest number of repeats.
    Without `shipment` a pod that is lost is not replaced.

    Raises:
        NodeError: a node cannot be reached or refuses before anything was launched.
        Superseded: another controller has taken the gang over.
    """
    known = await asyncio.to_thread(store.outcome)
    if known is not None:
        return CaseOutcome.from_json(known)
    async with connections(job.nodes, targets, job.job_id) as transports:
        gang = GangContext(
            job,
            transports,
            store,
            on_event,
            throughput_of=throughput_of,
            launcher=launcher_of(job, targets, on_event),
            pods=pods_of(job, targets, on_event),
            prepare=partial(prepare, job, targets, shipment, on_event, store, replacing=True)
            if shipment
            else None,
        )
        return await GangController(gang).run()


class GangController:
    """Runs the repeats of one case."""

    def __init__(self, gang: GangContext) -> None:
        self._gang = gang
        self._agents = AgentSupervisor(gang)

    async def run(self) -> CaseOutcome:
        """Return the outcome of the case, once its last repeat has ended; see `run_gang`."""
        try:
            return await self._run()
        finally:
            await self._gang.monitor.close()

    async def _run(self) -> CaseOutcome:
        gang = self._gang
        await gang.open()
        gang.epoch = await self._claim_epoch()
        await gang.raise_if_superseded()
        await asyncio.to_thread(gang.store.save_epoch, gang.epoch)
        gang.start_monitor(gang.epoch)
        gang.outcomes = await self._recorded_outcomes()
        try:
            end = await self._run_repeats()
        except Cancelled as cancelled:
            end = Conclusion(CaseStatus.CANCELLED, cancelled.reasons)
            # The last repeat may have been recorded just before the cancellation was seen.
            gang.outcomes = await self._recorded_outcomes()
        except NodeError:
            # Nothing can be launched: free the nodes that do answer for the next case.
            await self._stop_agents()
            raise
        outcome = self._outcome(end)
        await self._stop_agents()
        await gang.raise_if_superseded()
        await asyncio.to_thread(gang.store.save_outcome, outcome.to_json())
        message = outcome.why or f"{len(outcome.repeats)} repeats"
        await gang.write_progress("ended", len(outcome.repeats), message, force=True)
        gang.on_event(GangEvent("outcome", f"{outcome.status}: {message}"))
        return outcome

    async def _claim_epoch(self) -> int:
        """Return an epoch above all others, which every node has accepted as this controller's."""
        gang, lease_s = self._gang, self._gang.job.limits.lease_s
        for _ in range(EPOCH_ATTEMPTS):
            found = await on_all(
                retry_unreachable(client.epoch, lease_s) for client in gang.clients
            )
            epoch = max(*found, await asyncio.to_thread(gang.store.epoch)) + 1
            # Nodes are claimed in the same order by all: of two controllers, one wins the first.
            for client in gang.in_lock_order():
                if not await retry_unreachable(partial(client.claim_epoch, epoch), lease_s):
                    break
            else:
                gang.on_event(GangEvent("epoch", f"epoch {epoch}", epoch=epoch))
                return epoch
        raise GangError(
            f"{gang.job.job_id}: {EPOCH_ATTEMPTS} attempts to claim an epoch failed because other "
            "controllers were faster. Are controllers of this job started in a loop?"
        )

    async def _run_repeats(self) -> Conclusion:
        gang = self._gang
        await gang.raise_if_cancelled()
        while True:
            end = conclude(gang.job, gang.outcomes)
            if end is not None:
                return end
            repeat = RepeatController(gang, self._agents, len(gang.outcomes) + 1)
            try:
                gang.outcomes.append(await repeat.run(first=not gang.outcomes))
            except DeadlinePassed as late:
                gang.on_event(GangEvent("repeat", str(late)))
                return conclude_by_deadline(gang.job, gang.outcomes)

    async def _recorded_outcomes(self) -> list[RepeatOutcome]:
        gang = self._gang
        outcomes: list[RepeatOutcome] = []
        while record := await asyncio.to_thread(gang.store.repeat, len(outcomes) + 1):
            number = len(outcomes) + 1
            throughput = None
            if record["status"] == "ok" and gang.throughput_of is not None:
                results = await asyncio.to_thread(gang.store.results, number)
                throughput = gang.throughput_of(record, results)
            outcomes.append(RepeatOutcome.from_record(number, record, throughput))
        return outcomes

    async def _stop_agents(self) -> None:
        """Free the nodes; the agent of one that does not answer ends when its lease expires."""
        gang = self._gang
        document = {"epoch": gang.epoch}
        gang.monitor.set_interval(FAST_POLL_S)

        async def stop(client: NodeClient) -> bool:
            if not ((await client.stop_command()) or {}).get("cancelled"):
                await client.command("stop", None, document)
            return True

        stopped = await call_each(gang.clients, stop)
        for client in gang.clients:
            if client.name not in stopped:
                message = f"could not be stopped: {client.view.last_error}"
                gang.on_event(GangEvent("lost", message, client.name))
        running = await call_each(gang.clients, NodeClient.is_agent_running)
        dead = {name for name, runs in running.items() if not runs}
        until_s = gang.clock() + gang.job.limits.term_s + STOP_S
        while gang.clock() < until_s:
            views = [view for view in await gang.monitor.next_views() if view.node not in dead]
            left = [view for view in views if view.agent in (*SERVING, "waiting")]
            if not any(view.answers(gang.clock()) for view in left):
                break
        # An agent that was killed cannot have ended its ranks' descendants: the sweep does.
        killed = [c for c in gang.clients if c.name in dead and c.view.agent != "ended"]
        await self._agents.sweep(killed)
        if gang.launcher is not None:
            try:
                await gang.launcher.end(gang.lead.transport)
            except NodeError as error:
                gang.on_event(GangEvent("lost", f"could not be ended: {error}"))
        if gang.pods is not None:
            await gang.monitor.close()  # it would report each pod as lost
            await gang.pods.delete_or_report()

    def _outcome(self, end: Conclusion) -> CaseOutcome:
        outcomes = self._gang.outcomes
        faults: dict[str | None, Reason] = {}
        if end.status is CaseStatus.FAILED:
            faults = {fault.node: fault for repeat in outcomes for fault in repeat.faults}
        return CaseOutcome(end.status, end.reasons, tuple(outcomes), faults=tuple(faults.values()))
