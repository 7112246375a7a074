"""Gangs of the `fake` framework on the hosts of a lab, and what must be true after a fault."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pickle
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.drills.hosts import Host, Lab, marked
from tests.drills.slurm import SharedHost, SlurmCluster
from tests.jobs import gang_job

from nightbench.core.model import (
    JobSpec,
    Limits,
    Protocol,
    Strategy,
    reasons_from_json,
)
from nightbench.gang import GangEvent, Shipment, SshTarget, prepare, run_gang
from nightbench.spool import CaseOutcome, CaseStore, Spool

REPO = Path(__file__).resolve().parents[2]
LIMITS = {"ready_s": 40, "repeat_s": 90, "progress_s": 40, "lease_s": 20, "term_s": 1}
_RUNS = itertools.count(1)
Hosts = Lab | SlurmCluster


def make_job(
    lab: Hosts,
    shipment: Shipment,
    *,
    nodes: Iterable[str] = (),
    repeats: int = 2,
    steps: int = 20,
    limits: Mapping[str, float] | None = None,
    strategy: Strategy = Strategy.COLLECTIVE,
    sync: str = "sync",
    env: Mapping[str, str] | None = None,
    protocol: Mapping[str, Any] | None = None,
    environments: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    **params: Any,
) -> JobSpec:
    """A job with one trainer on each host (and a parameter server on the first, if asked).

    `params` are knobs of the fake framework: `step_s`, `rank`, `repeat`, `die_at_step`, ... Its
    warm-up has 5 steps, its window `steps`.
    """
    names = tuple(nodes) or tuple(lab.hosts)
    pservers = int(strategy is Strategy.PARAMETER_SERVER)
    if len(names) == 1 and strategy is Strategy.COLLECTIVE:
        strategy = Strategy.SINGLE
    return gang_job(
        lab.nodes(*names),
        pservers=pservers,
        strategy=strategy,
        sync=sync,
        run_id=run_id or f"drill-{os.getpid()}-{lab.tag}-{next(_RUNS)}",
        cluster="lab",
        protocol=Protocol(5, steps, repeats, **(protocol or {})),
        workload_params={"step_s": 0.05, **params},
        env=dict(env or {}),
        limits=Limits(**{**LIMITS, **(limits or {})}),
        code_digest=shipment.code_digest(),
        environments=lab.environments.model_copy(update=environments or {}),
    )


def make_store(folder: Path, name: str = "run") -> CaseStore:
    """A case's folder in a spool."""
    return Spool(folder / "spool").run(name).case("case")


async def measure(
    lab: Hosts,
    shipment: Shipment,
    job: JobSpec,
    store: CaseStore,
    events: list[GangEvent] | None = None,
    targets: Mapping[str, SshTarget] | None = None,
) -> CaseOutcome:
    """Prepare the nodes and measure the case."""
    known = targets or lab.targets()
    heard = events if events is not None else []
    await prepare(job, known, shipment, heard.append)
    return await run_gang(job, known, store, heard.append)


class Controller:
    """A controller in a process of its own, which can be killed.

    Args:
        folder: for its files; the log is `controller.log`.
    """

    def __init__(
        self,
        folder: Path,
        shipment: Shipment,
        job: JobSpec,
        store: CaseStore,
        targets: Mapping[str, SshTarget],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        parts = folder / "parts"
        parts.write_bytes(pickle.dumps((job, dict(targets), shipment, str(store.folder))))
        self.log = folder / "controller.log"
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.drills.controller", str(parts)],
                cwd=REPO,
                stdout=out,
                stderr=out,
                env=with_plugins(),
            )

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    async def end(self, limit_s: float = 120) -> int:
        """Wait for its end; its exit code."""
        await eventually(lambda: self.process.poll() is not None, limit_s)
        return int(self.process.returncode)


def with_plugins() -> dict[str, str]:
    """The environment of a Python process that finds the product's code."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "NIGHTBENCH"))}
    path = [str(REPO / "plugins"), os.environ.get("PYTHONPATH", "")]
    return {**kept, "PYTHONPATH": os.pathsep.join(p for p in path if p)}


async def eventually(
    condition: Callable[[], Any], limit_s: float = 90, what: str = "it did not come about"
) -> Any:
    """Wait until a condition holds; its value."""
    until = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < until, what
        await asyncio.sleep(0.05)
    return value


def in_phase(store: CaseStore, *phases: str, repeat: int | None = None) -> Callable[[], bool]:
    """Whether the gang is in one of these phases as its controller sees it."""

    def look() -> bool:
        progress = store.progress() or {}
        right = repeat is None or progress.get("repeat") == repeat
        return right and progress.get("state") == "running" and progress.get("phase") in phases

    return look


def job_dir(host: Host | SharedHost, job: JobSpec, user: str = "bench") -> Path:
    """The job's folder on a host, which outlives a crash (environments.root by default)."""
    root = job.environments.root
    if root.startswith("~"):
        return host.home / user / root[2:] / "jobs" / job.job_id / host.name
    return host.path(root) / "jobs" / job.job_id / host.name


def agent_log(host: Host | SharedHost, job: JobSpec, user: str = "bench") -> list[dict[str, Any]]:
    """What the agent wrote; a line that a crash tore apart is left out."""
    path = job_dir(host, job, user) / "agent.jsonl"
    entries = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            entries.append(json.loads(line))
        except ValueError:
            entries.append({"event": "torn"})
    return entries


def launches(lab: Hosts, job: JobSpec, user: str = "bench") -> Counter[tuple[int, str]]:
    """How often each process of each repeat was launched, on all hosts."""
    return Counter(
        (entry["repeat"], entry["process"])
        for node in job.nodes
        for entry in agent_log(lab.hosts[node.name], job, user)
        if entry["event"] == "launch"
    )


def left(job: JobSpec) -> list[tuple[int, str]]:
    """Marked processes on any host, once agents that are at their end have ended."""
    until = time.monotonic() + 5
    while (found := marked(job.run_id)) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def check_accounts(
    lab: Hosts,
    job: JobSpec,
    store: CaseStore,
    outcome: CaseOutcome,
    user: str = "bench",
) -> None:
    """Every repeat is accounted for once, nothing is left on any node.

    Launched at most once each; each launched repeat recorded, each recorded one in the outcome;
    a good one with results of every node and launched everywhere; no marked process left.
    """
    assert left(job) == []
    launched = launches(lab, job, user)
    assert all(count == 1 for count in launched.values()), launched
    found = {number: store.repeat(number) for number in store.repeats()}
    recorded = {number: record for number, record in found.items() if record}
    assert {number for number, _ in launched} <= set(recorded)
    assert [r.repeat for r in outcome.repeats] == sorted(recorded)
    for repeat in outcome.repeats:
        record = recorded[repeat.repeat]
        assert (record["status"], reasons_from_json(record["reasons"])) == (
            repeat.status,
            repeat.reasons,
        )
        if repeat.status not in ("ok", "disturbed"):
            assert repeat.reasons
            continue
        assert {name for number, name in launched if number == repeat.repeat} == {
            process.name for process in job.processes
        }
        results = store.results(repeat.repeat)
        assert sorted(results) == sorted(node.name for node in job.nodes)
        for result in results.values():
            assert result["status"] == "ok"
            for process in result["processes"]:
                if process["role"] == "trainer":
                    assert len(process["summary"]["step_seconds"]) == job.protocol.measured_steps
    saved = store.outcome()
    assert saved is not None
    assert saved["status"] == outcome.status
