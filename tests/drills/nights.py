"""Real nights of a lab, one right after another and dated a day apart.

Each night is a nightly run with its preflight, controls, repeats and, where the suite has one, its
reference build: measured over SSH on the hosts of a lab, loaded into PostgreSQL, judged. Only the
dates are not real. The line `fake` of the copy that is shipped computes and sends in each step, and
`toy` is the same under another name, with builds of its own.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.drills.hosts import Host, Lab
from tests.shipped import shipped

from nightbench.config import load_catalog
from nightbench.core.model import (
    Build,
    Case,
    Protocol,
    RegressionPolicy,
    RunKind,
    Strategy,
    Suite,
    Verdict,
)
from nightbench.core.placement import nodes_for
from nightbench.core.run_plan import make_plan
from nightbench.experiments.engine import ExperimentContext
from nightbench.experiments.reference_measuring import measure_references
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.gang import Shipment, case_runner
from nightbench.gang.progress import ignore
from nightbench.night import planning
from nightbench.night.cluster_preflight import ClusterHealth, examine, record_preflight, save
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import judge_run
from nightbench.spool import Spool
from nightbench.spool.plans import mark_ended, store_plan
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect

START = datetime(2026, 3, 1, 1, tzinfo=UTC)
BUILDS = "/home/bench/builds"
STEP_S = 0.02

WORKING = '''

BLOCK = bytes(65536)
PAYLOAD = "x" * 65536


class Working(PlainTrainer):
    """Computes about 10 ms in each step, and sends 64 KiB to the other trainers and back."""

    def step(self):
        for _ in range(240):
            hashlib.sha256(BLOCK).digest()
        if self.context.world_size > 1:
            self.context.runtime.meet(PAYLOAD)
        super().step()


def Trainer(context, network, data):
    context.runtime.faults.on_build()
    return FaultyTrainer(Working(context, network, data), context.runtime.faults)
'''


def make_benchmarks(folder: Path) -> Path:
    """What is shipped: two lines that work for real."""
    made = shipped(folder)
    fake, toy = made / "frameworks/fake", made / "frameworks/toy"
    with (fake / "trainer.py").open("a") as trainer:
        trainer.write(WORKING)
    shutil.copytree(fake, toy)
    described = json.loads((fake / "framework.json").read_text())
    (toy / "framework.json").write_text(json.dumps({**described, "line": "toy", "title": "Toy"}))
    runtime = (fake / "runtime.py").read_text()
    (toy / "runtime.py").write_text(runtime.replace('line = "fake"', 'line = "toy"'))
    return made


def install(host: Host, version: str, step_s: float) -> None:
    """Put a build on a host: a prefix whose python says what it is and how long its steps sleep."""
    name = f"builds/{version}/bin/python"
    program = f'FAKE_STEP_S={step_s} FAKE_VERSION=\'"{version}"\' exec /usr/bin/python3 "$@"'
    host.write_home(name, f"#!/bin/sh\n{program}\n")
    (host.home / "bench" / name).chmod(0o755)


def build(line: str, version: str) -> Build:
    """A build that `install` has put on all hosts."""
    return Build(line, "cpu", "path", None, f"{BUILDS}/{version}")


class Nights:
    """A suite's nights on hosts of a lab, which are there."""

    def __init__(
        self, lab: Lab, folder: Path, connect: Connect, nodes: Sequence[str] = (), repeats: int = 2
    ) -> None:
        self._lab, self._connect = lab, connect
        self._protocol = Protocol(warmup_steps=2, measured_steps=20, repeats=repeats)
        self.spool = Spool(folder / "spool")
        benchmarks = make_benchmarks(folder / "shipped")
        self._shipment, self._catalog = Shipment(benchmarks), load_catalog(benchmarks)
        cluster = lab.cluster(shared=True, parallel_cases=3)
        self.cluster = dataclasses.replace(cluster, nodes=lab.nodes(*nodes))
        self.count = 0

    def at(self, number: int) -> datetime:
        """When a night begins, from 0."""
        return START + timedelta(days=number)

    def cases(self, nodes: tuple[str, ...], line: str, number: int) -> tuple[Case, ...]:
        """So many cases of a line that are placed on these nodes."""
        found = list[Case]()
        batch = 0
        while len(found) < number:
            batch += 1
            case = Case(
                "sleep",
                line,
                Strategy.COLLECTIVE if len(nodes) > 1 else Strategy.SINGLE,
                nodes=len(nodes),
                trainers=len(nodes),
                batch_size_per_device=batch,
                scale="smoke",
            )
            if tuple(node.name for node in nodes_for(case, self.cluster)) == nodes:
                found.append(case)
        return tuple(found)

    def night(
        self,
        cases: tuple[Case, ...],
        builds: Mapping[str, Build],
        reference: Mapping[str, Build] | None = None,
        *,
        judged: bool = True,
    ) -> dict[str, Verdict]:
        """Measure and load the next night, and judge it; what is not `judged` is history alone."""
        began = time.monotonic()
        at = self.at(self.count)
        run_id, self.count = f"whole-n{self.count + 1:02d}", self.count + 1
        suite = Suite(
            "whole",
            "tests",
            self.cluster.name,
            cases,
            protocol=self._protocol,
            policy=RegressionPolicy(confirm_s=0),
            builds=builds,
            reference=reference or {},
        )
        past = planning.case_histories(self.cluster.name, self._connect)
        tonight = planning.plan_night(suite, self.cluster, self._catalog, past, at)
        plan = make_plan(
            suite,
            self.cluster,
            self._catalog,
            run_kind=RunKind.NIGHTLY,
            run_id=run_id,
            started_at=at,
            night=tonight,
        )
        folder = store_plan(plan, self.spool)
        names = [node.name for node in self.cluster.nodes]
        targets = {name: self._lab.targets()[name] for name in names}
        lines = [self._catalog.frameworks[line] for line in sorted(builds)]
        found = asyncio.run(
            examine(self.cluster, targets, self._shipment, lines, controls=True, sweep=True)
        )
        found = _dated(found, at)
        with opened(self._connect) as warehouse:
            record_preflight(warehouse, run_id, found, self.cluster.health)
        save(folder, found, self.cluster.health, {})
        results = case_runner.measure_cases(
            plan.jobs,
            folder,
            targets,
            self._shipment,
            on_event=ignore,
            refresh=lambda: None,
            at_once=self.cluster.parallel_cases,
        )
        if plan.pairs:
            context = ExperimentContext(
                suite, self.cluster, self._catalog, targets=targets, shipment=self._shipment
            )
            reporter = ComparisonReporter(print)
            asyncio.run(measure_references(plan, self.spool, context, reporter, self._connect))
        mark_ended(folder)
        ingest_run(self.spool, run_id, self._connect)
        ends = zip(plan.jobs, results, strict=True)
        failed = {job.case.case_id: end.reasons for job, end in ends if end.status != "ok"}
        took = time.monotonic() - began
        print(f"{run_id} of {at:%Y-%m-%d}: {took:.0f} s {failed or ''}", flush=True)
        if not judged:
            return {}
        verdicts = judge_run(self.spool, run_id, self._connect).verdicts
        for v in verdicts:
            print(f"  {v.value or 0:8.2f} {v.kind:<18} {v.case_id}", flush=True)
        return {verdict.case_id: verdict for verdict in verdicts}


def _dated(health: ClusterHealth, at: datetime) -> ClusterHealth:
    """The examination as if it had been made in that night."""
    nodes = tuple(
        dataclasses.replace(each, seen=dataclasses.replace(each.seen, at=at.isoformat()))
        for each in health.nodes
    )
    return dataclasses.replace(health, nodes=nodes, at=at)
