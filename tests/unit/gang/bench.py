"""A gang on simulated nodes and virtual time: the job, its nodes, and the real controller."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from datetime import UTC, datetime, timedelta
from unittest import mock

from tests.jobs import gang_job
from tests.unit.gang.simulated import SimNode, SimTransport, World

from nightbench.core.model import (
    EnvironmentPolicy,
    Limits,
    NeighbourPolicy,
    Node,
    Protocol,
)
from nightbench.gang import SshTarget, cancel
from nightbench.gang.controller import GangController
from nightbench.gang.gang_context import GangContext
from nightbench.spool import Spool

LEASE_S = 12.0
JOB = gang_job(
    (Node("n1", "h1", "c"), Node("n2", "h2", "c")),
    run_id="run",
    protocol=Protocol(2, 3, 3),
    limits=Limits(ready_s=15, repeat_s=60, progress_s=10, lease_s=LEASE_S, term_s=0.2),
    environments=EnvironmentPolicy(root="/node"),
    neighbours=NeighbourPolicy(action="wait", budget=1),
)
PATIENT = dataclasses.replace(JOB, limits=dataclasses.replace(JOB.limits, progress_s=60))
EVENING = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)


async def inline(function, /, *arguments, **options):
    """`asyncio.to_thread` without the thread: the spool is used at once, and others may run."""
    await asyncio.sleep(0)
    return function(*arguments, **options)


class Bench:
    """Two nodes, a store, and virtual time."""

    def __init__(self, loop, folder):
        self.loop = loop
        self.store = Spool(folder).run("run").case("case")
        self.events = []

    def world(self, job):
        self.job = job
        self.nodes = World(job, random.Random(1))
        for name in ("n1", "n2"):
            SimNode(self.nodes, name)
        return self.nodes

    def start(self, on_event=lambda event: None, **options):
        def heard(event):
            self.events.append(event)
            on_event(event)

        async def control():
            transports = {n: SimTransport(node) for n, node in self.nodes.nodes.items()}
            gang = GangContext(self.job, transports, self.store, heard, self.loop.time, **options)
            return await GangController(gang).run()

        return self.loop.create_task(control())

    def suspend(self, seconds):
        """The controller's machine stands still; nodes do not see it."""
        self.loop.jump(seconds)
        self.nodes.unseen_s += seconds

    def run(self, **options):
        return self.end(self.start(**options))

    def end(self, task):
        return self.loop.run_until_complete(task)

    def stop(self, task):
        task.cancel()
        self.end(asyncio.gather(task, return_exceptions=True))

    def cancel(self, why):
        def connect(target):
            return SimTransport(self.nodes.nodes[target.node])

        targets = {name: SshTarget(name, name, b"") for name in self.nodes.nodes}
        with mock.patch("nightbench.gang.node_access.shared_transport", connect):
            self.end(cancel(self.job, targets, why, self.store))

    def passes(self, seconds):
        self.end(asyncio.sleep(seconds))

    def until(self, condition, limit_s=60.0):
        end_s = self.loop.time() + limit_s
        while not condition():
            assert self.loop.time() < end_s, "it did not come about"
            self.passes(0.05)

    def launched(self, node="n2"):
        times = sorted(self.nodes.launches.items())
        return [repeat for (name, repeat), n in times for _ in range(n) if name == node]

    def today(self):
        return EVENING + timedelta(seconds=self.loop.time())


def said(outcome):
    return [r.status for r in outcome.repeats]
