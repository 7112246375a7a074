"""200 single-node gangs in flight in one process, as in a triggerer: its CPU and memory.

    python -m tests.performance many_gangs [--gangs 200] [--nodes 20] [--trigger]

Every gang has a lock of its own here, so that all of them really run at the same time; on real
nodes those that share one wait for each other, which costs their controllers less.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable

from tests.performance.ground import Ground, Meter, ground, left_over, resident_bytes, say

from nightbench.core.model import CaseStatus, Cluster, JobSpec, Protocol
from nightbench.gang import prepare, run_gang

Control = Callable[[JobSpec], Awaitable[bool]]


async def measure(field: Ground, jobs: list[JobSpec], control: Control, seconds: float) -> bool:
    """Run all gangs and print what controlling them costs while all are in flight."""
    began_s = time.monotonic()
    gate = asyncio.Semaphore(8)

    async def ready(job: JobSpec) -> None:
        async with gate:
            await prepare(job, field.targets, field.shipment)

    await asyncio.gather(*(ready(job) for job in jobs))
    say("nodes prepared", time.monotonic() - began_s, "s")
    whole, began_s = Meter.now(), time.monotonic()
    work = [asyncio.create_task(_one(control, job)) for job in jobs]
    running = set()
    while len(running) < len(jobs) and not any(task.done() for task in work):
        await asyncio.sleep(1)
        running |= {job.run_id for job in jobs if _steps(field, job)}
    say("called to all of them stepping", time.monotonic() - began_s, "s")
    say("  CPU meanwhile", whole.cores(), "cores", "(wanted: under 1)")
    meter, server_s, began_s = Meter.now(), field.server_cpu_s(), time.monotonic()
    lags = [await _lag() for _ in range(max(int(seconds / 0.5), 1))]
    say("CPU while all are in flight", meter.cores(), "cores", "(wanted: under 1)")
    taken_s = time.monotonic() - began_s
    say("SSH server's CPU meanwhile", (field.server_cpu_s() - server_s) / taken_s, "cores")
    say("memory", resident_bytes() / 1e6, "MB", "(wanted: under 1000)")
    say("connections", field.connections(), "", f"(wanted: {len(field.nodes)})")
    say("event loop's worst delay", max(lags), "s")
    say("gangs still in flight", sum(not task.done() for task in work), "")
    good = await asyncio.gather(*work)
    say("whole: CPU", whole.cores(), "cores")
    say("gangs that ended well", sum(good), "")
    left = left_over(jobs[0].run_id.rpartition("-")[0])
    say("processes left", len(left), "")
    return all(good) and not left


async def _one(control: Control, job: JobSpec) -> bool:
    return await control(job)


def _steps(field: Ground, job: JobSpec) -> bool:
    progress = field.store(job).progress() or {}
    return progress.get("phase") in ("warmup", "window")


async def _lag() -> float:
    began_s = time.monotonic()
    await asyncio.sleep(0.5)
    return time.monotonic() - began_s - 0.5


def by_function(field: Ground) -> Control:
    """Controls as the command line does."""

    async def control(job: JobSpec) -> bool:
        outcome = await run_gang(job, field.targets, field.store(job))
        if outcome.status is not CaseStatus.OK:
            print(f"{job.job_id}: {outcome.status} {outcome.why}")
        return outcome.status is CaseStatus.OK

    return control


def by_trigger(field: Ground) -> Control:
    """Controls as a triggerer does: through the trigger, with an SSH Connection of Airflow."""
    first = next(iter(field.targets.values()))
    os.environ["NIGHTBENCH_HOME"] = str(field.folder / "home")
    os.environ["NIGHTBENCH_SPOOL"] = str(field.folder / "spool")
    os.environ["AIRFLOW_HOME"] = str(field.folder / "airflow")
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "WARNING"
    os.environ["AIRFLOW_CONN_TEST"] = (
        f'{{"conn_type": "ssh", "login": "{first.user}", "port": {first.port}, '
        f'"extra": {{"key_file": "{first.client_keys[0]}", '
        f'"known_hosts": "{first.known_hosts!s}"}}}}'
    )

    async def control(job: JobSpec) -> bool:
        from nightbench.orchestration.gang_trigger import GangTrigger
        from nightbench.spool.plans import PlannedJob, save_job

        run = field.spool.run(job.run_id)
        cluster = Cluster(job.cluster, job.nodes, environments=job.environments)
        await asyncio.to_thread(save_job, run, PlannedJob.of(job, cluster))
        trigger = GangTrigger(job.run_id, job.case.case_id, job.generation)
        events = [event async for event in trigger.run()]
        outcome = field.store(job).outcome() or {}
        if outcome.get("status") != "ok":
            print(f"{job.job_id}: {events} {outcome}")
        return outcome.get("status") == "ok"

    return control


def main(words: list[str]) -> int:
    """The command line; 1 where a gang did not end clean."""
    parser = argparse.ArgumentParser(prog="tests.performance many_gangs", description=__doc__)
    parser.add_argument("--gangs", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0, help="time that is looked at")
    parser.add_argument("--trigger", action="store_true", help="through Airflow's GangTrigger")
    options = parser.parse_args(words)
    with ground(options.nodes) as field:
        steps = int((options.seconds + 0.5 * options.gangs + 20) / 0.5)
        jobs = [
            field.job(
                f"figures-{i:03d}",
                [field.nodes[i % len(field.nodes)]],
                trainers=1,
                protocol=Protocol(2, steps, 1),
                step_s=0.5,
                lock=f"{i}",
            )
            for i in range(options.gangs)
        ]
        control = (by_trigger if options.trigger else by_function)(field)
        how = "GangTrigger" if options.trigger else "run_gang"
        print(f"{options.gangs} gangs on {options.nodes} nodes, controlled by {how}")
        return 0 if asyncio.run(measure(field, jobs, control, options.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
