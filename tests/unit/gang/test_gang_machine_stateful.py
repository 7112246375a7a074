"""Random faults against the real controller: what must be true after every order of events."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import tempfile
from unittest import mock

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)
from tests.unit.gang.bench import JOB, LEASE_S, inline
from tests.unit.gang.simulated import SimNode, SimTransport, VirtualLoop, World

from nightbench.core.model import CaseStatus
from nightbench.gang import SshTarget, cancel
from nightbench.gang.controller import GangController
from nightbench.gang.errors import GangError
from nightbench.gang.gang_context import GangContext
from nightbench.spool import Spool

RIVAL_JOB = dataclasses.replace(JOB, run_id="rival")
NODES = st.sampled_from(["n1", "n2"])


class GangUnderFaults(RuleBasedStateMachine):
    """Two nodes, up to two controllers, a rival gang, and everything that can go wrong."""

    @initialize(seed=st.integers(0, 2**16), rival_waits=st.booleans())
    def begin(self, seed, rival_waits):
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.patch = mock.patch("asyncio.to_thread", inline)
        self.patch.start()
        self.folder = tempfile.TemporaryDirectory()
        self.store = Spool(self.folder.name).run("run").case("case")
        self.world = World(JOB, random.Random(seed))
        for name in ("n1", "n2"):
            SimNode(self.world, name)
        self.rival = World(RIVAL_JOB, self.world.random)
        for name, node in self.world.nodes.items():
            SimNode(self.rival, name, node.machine)
        self.rival_store = Spool(self.folder.name).run("rival").case("case")
        self.rival_controller: asyncio.Task | None = None
        self.controllers: list[asyncio.Task] = []
        self.cancelled = False
        self.records: dict[int, tuple[str, str | None]] = {}
        self.away: set[str] = set()
        save_outcome = self.store.save_outcome

        def save(document):
            self.away = {n.node for n in self.world.nodes.values() if not n.reachable}
            save_outcome(document)

        self.store.save_outcome = save
        self.start_controller()
        if rival_waits:
            self._pass(1.5)
            self.rival_comes()

    # --- what happens ---------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.03, 0.3, 0.7, 1.5, 4.0]))
    def time_passes(self, seconds):
        self._pass(seconds)

    @rule(seconds=st.sampled_from([10.0, 20.0]))
    def much_time_passes(self, seconds):
        self._pass(seconds)

    @rule()
    @precondition(lambda self: len(self._living()) < 2)
    def start_controller(self):
        self.controllers.append(self.loop.create_task(self._control(self.world, self.store)))
        self._pass(0.01)

    @rule()
    @precondition(lambda self: self.rival_controller is None)
    def rival_comes(self):
        self._start_rival()
        self._pass(0.01)

    @rule(delay_s=st.floats(0, 1), oldest=st.booleans())
    @precondition(lambda self: self._living())
    def kill_controller(self, delay_s, oldest):
        self._pass(delay_s)
        for task in self._living()[: 1 if oldest else None][-1:]:
            task.cancel()
        self._pass(0.001)

    @rule(node=NODES, loud=st.booleans())
    def cut(self, node, loud):
        setattr(self.world.nodes[node], "refused" if loud else "silent", True)

    @rule(node=NODES)
    def heal(self, node):
        self.world.nodes[node].silent = self.world.nodes[node].refused = False

    @rule(node=NODES, answers=st.integers(1, 3))
    def lose_answers(self, node, answers):
        self.world.nodes[node].lose = answers

    @rule(node=NODES, leave_daemon=st.booleans())
    def agent_dies(self, node, leave_daemon):
        self.world.nodes[node].kill_agent(leave_daemon)

    @rule(node=NODES)
    @precondition(lambda self: self._rivals_compete())
    def agent_of_rivals_dies(self, node):
        """The gang that holds the node loses it while the other one waits for it."""
        holder = self.world.nodes[node].machine.lock
        if holder is not None and holder != "other":
            holder.node.kill_agent()

    @rule(node=NODES, away_s=st.sampled_from([1.0, 15.0]))
    def reboot(self, node, away_s):
        it = self.world.nodes[node]
        it.reboot()
        self.loop.call_later(away_s, it.boot)

    @rule(node=NODES)
    def process_fails(self, node):
        self.world.nodes[node].fail_process()

    @rule(repeat=st.integers(1, 4))
    def neighbours_come(self, repeat):
        self.world.disturbed.add(repeat)

    @rule(node=NODES, seconds=st.sampled_from([2.0, 25.0]))
    @precondition(lambda self: any(n.machine.lock is None for n in self.world.nodes.values()))
    def others_take_the_node(self, node, seconds):
        it = self.world.nodes[node].machine
        if it.lock is not None:
            return
        it.lock = "other"

        def free():
            if it.lock == "other":
                it.lock = None

        self.loop.call_later(seconds, free)

    @rule()
    @precondition(lambda self: not self.cancelled)
    def a_person_cancels(self):
        async def end():
            try:
                with mock.patch("nightbench.gang.node_access.shared_transport", self._connect):
                    await cancel(JOB, self._targets(), store=self.store)
            except GangError:
                return False
            return True

        self.cancelled = self.loop.run_until_complete(end())
        if self.cancelled:
            self._nothing_runs("after a cancel")

    # --- what must hold -------------------------------------------------------------------------

    def teardown(self):
        if not hasattr(self, "loop"):
            return
        try:
            self._end_well()
        finally:
            for task in (*self._living(), self.rival_controller):
                if task is not None:
                    task.cancel()
            self._pass(1)
            self.patch.stop()
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self._pass(0.1)
            self.loop.close()
            asyncio.set_event_loop(None)
            self.folder.cleanup()

    def _end_well(self):
        """All faults end, a controller gets its time: then everything is accounted for."""
        for node in self.world.nodes.values():
            node.silent = node.refused = False
            node.lose = 0
        self._pass(20)
        for _ in range(8):
            rival_ended = self.rival_controller is None or self.rival_store.outcome() is not None
            if self.store.outcome() is not None and rival_ended:
                break
            if self.store.outcome() is None and not self._living():
                self.start_controller()
            if not rival_ended and self.rival_controller.done():
                self._start_rival()
            self._pass(100)
        outcome = self.store.outcome()
        assert outcome is not None, "no controller came to an end"
        assert rival_ended, "the rival came to no end"
        self._pass(2 * LEASE_S + 40)
        self._nothing_runs("after the leases")
        for node in (*self.world.nodes.values(), *self.rival.nodes.values()):
            assert node.agent is None, f"an agent is left on {node.node}"
        launched = {repeat for _, repeat in self.world.launches}
        recorded = set(self.store.repeats())
        if not self.cancelled and outcome["status"] != CaseStatus.CANCELLED:
            assert launched <= recorded, "a launch that nobody accounts for"
        assert recorded == set(range(1, len(recorded) + 1))
        if outcome["repeats"]:
            assert [r["repeat"] for r in outcome["repeats"]] == sorted(recorded)
        for number in sorted(recorded):
            self._holds(number)

    def _holds(self, number):
        record = self.store.repeat(number)
        results = self.store.results(number)
        for node, result in results.items():
            it = self.world.nodes[node]
            on_node = json.loads(it.files[f"{it.job_dir}/repeats/{number:03d}/result.json"])
            assert result == on_node, "what was fetched is not what the node has"
        if record["status"] in ("ok", "disturbed"):
            assert {n: r["status"] for n, r in results.items()} == {"n1": "ok", "n2": "ok"}
            disturbed = any(r["disturbed"] for r in results.values())
            assert (record["status"] == "disturbed") == disturbed

    def _pass(self, seconds):
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self._look()

    def _look(self):
        """After every step: the invariants that hold at any moment."""
        for world in (self.world, self.rival):
            assert not world.wrong, world.wrong
            twice = {key: n for key, n in world.launches.items() if n > 1}
            assert not twice, f"launched more than once: {twice}"
            for node, epochs in world.obeyed.items():
                assert epochs == sorted(epochs), f"{node} obeyed epochs in the order {epochs}"
        for number in self.store.repeats():
            record = self.store.repeat(number)
            seen = (record["status"], record["reasons"])
            assert self.records.setdefault(number, seen) == seen, "a record was changed"
        for task in (*self.controllers, *filter(None, [self.rival_controller])):
            if task.done() and not task.cancelled():
                task.result()

    def _nothing_runs(self, when):
        left = {n.node: n.processes for n in self.world.nodes.values() if n.processes}
        for node in self.away & set(left):
            # Nobody could reach it, and no agent lived there: what comes next sweeps it.
            if all(p.daemon for p in left[node]):
                del left[node]
        assert not left, f"{when}: {left}"

    # --- controllers ----------------------------------------------------------------------------

    def _living(self):
        return [task for task in self.controllers if not task.done()]

    def _connect(self, target):
        return SimTransport(self.world.nodes[target.node])

    @staticmethod
    def _targets():
        return {name: SshTarget(name, name, b"") for name in ("n1", "n2")}

    def _rivals_compete(self):
        return self.rival_controller is not None and not self.rival_controller.done()

    def _start_rival(self):
        self.rival_controller = self.loop.create_task(self._control(self.rival, self.rival_store))

    async def _control(self, world, store):
        """What `run_gang` does, on virtual time."""
        if store.outcome() is not None:
            return
        transports = {name: SimTransport(node) for name, node in world.nodes.items()}
        gang = GangContext(world.job, transports, store, clock=self.loop.time)
        try:
            await GangController(gang).run()
        except GangError:
            return  # unreachable or superseded: a rule starts the next controller


TestGangUnderFaults = GangUnderFaults.TestCase
TestGangUnderFaults.settings = settings(
    max_examples=60,
    stateful_step_count=14,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
