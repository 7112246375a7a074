"""Gangs as jobs of a real Slurm on this machine, whose daemons and controller are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.drills.gangs import (
    Controller,
    check_accounts,
    eventually,
    in_phase,
    left,
    make_job,
    make_store,
    measure,
)
from tests.drills.hosts import marked
from tests.drills.slurm import NODES, SlurmCluster, missing, slurm_cluster
from tests.integration.terminal import TRIAL, Terminal

from nightbench.core.model import CaseStatus, JobSpec, ReasonCode
from nightbench.core.summarize import throughput_of
from nightbench.gang import GangEvent, Shipment, cancel
from nightbench.spool import CaseOutcome, CaseStore

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


def jobs_of(slurm: SlurmCluster, job: JobSpec) -> list[str]:
    """The states of the jobs that were submitted for a gang."""
    name = f"--name=nightbench/{job.job_id}"
    listed = slurm.run("squeue", "--noheader", "--states=all", name, "--format=%T")
    return [line.strip() for line in listed.splitlines()]


async def measured(
    slurm: SlurmCluster,
    shipment: Shipment,
    job: JobSpec,
    store: CaseStore,
    events: list[GangEvent],
    **policy: Any,
) -> CaseOutcome:
    return await measure(slurm, shipment, job, store, events, slurm.targets(**policy))


async def check(slurm: SlurmCluster, job: JobSpec, store: CaseStore, outcome: CaseOutcome) -> None:
    """Each repeat is accounted for, nothing is left on a node, and no job in the queue."""
    check_accounts(slurm, job, store, outcome)
    await eventually(lambda: not slurm.run("squeue", "--noheader").strip(), 30)


async def test_a_case_is_measured_in_one_job(
    slurm: SlurmCluster, shipment: Shipment, tmp_path: Path
) -> None:
    """Two nodes, three repeats, one job; repeats have throughputs, clocks and fingerprints."""
    job = make_job(slurm, shipment, repeats=3)
    store, events = make_store(tmp_path), list[GangEvent]()
    outcome = await measured(slurm, shipment, job, store, events)
    assert outcome.status is CaseStatus.OK, (outcome.why, events)
    await check(slurm, job, store, outcome)
    assert jobs_of(slurm, job) == ["COMPLETED"]
    figures = [throughput_of(job.case, store.repeat(k) or {}, store.results(k)) for k in (1, 2, 3)]
    print("samples/s:", figures)
    assert all(figure and figure > 0 for figure in figures)
    assert store.fingerprint("node-n1") is not None


async def test_a_cancelled_case_leaves_nothing(
    slurm: SlurmCluster, shipment: Shipment, tmp_path: Path
) -> None:
    job = make_job(slurm, shipment, steps=2000)
    store = make_store(tmp_path)
    running = asyncio.create_task(measured(slurm, shipment, job, store, []))
    await eventually(in_phase(store, "window"))
    began = time.monotonic()
    await cancel(job, slurm.targets(), "by the drill", store)
    print(f"cancelled within {time.monotonic() - began:.1f} s")
    assert (await running).status is CaseStatus.CANCELLED
    assert left(job) == []
    assert not slurm.run("squeue", "--noheader").strip()


async def test_scancel_cancels_the_case(
    slurm: SlurmCluster, shipment: Shipment, tmp_path: Path
) -> None:
    """A person who ends the job has ended the case: it is not submitted again."""
    job = make_job(slurm, shipment, steps=2000)
    store = make_store(tmp_path)
    running = asyncio.create_task(measured(slurm, shipment, job, store, []))
    await eventually(in_phase(store, "window"))
    slurm.run("scancel", "--me", f"--name=nightbench/{job.job_id}")
    outcome = await running
    assert outcome.status is CaseStatus.CANCELLED
    assert "scancel" in outcome.why
    assert jobs_of(slurm, job) == ["CANCELLED"]
    await check(slurm, job, store, outcome)


@pytest.mark.parametrize("daemon", ["slurmctld", *NODES])
async def test_a_daemon_dies_in_the_middle(
    slurm: SlurmCluster, shipment: Shipment, tmp_path: Path, daemon: str
) -> None:
    """The job goes on without it, and the case is measured as if nothing had happened."""
    job = make_job(slurm, shipment, repeats=2, steps=100)
    store, events = make_store(tmp_path), list[GangEvent]()
    running = asyncio.create_task(measured(slurm, shipment, job, store, events))
    await eventually(in_phase(store, "window", repeat=1))
    # slurmctld stores the state of jobs every five seconds; killed before, it has lost this one.
    await eventually(lambda: slurm.has_stored(job.job_id))
    slurm.kill(daemon)
    await eventually(lambda: store.repeat(1) is not None)
    await asyncio.sleep(5)
    slurm.start(daemon)
    outcome = await running
    assert [r.status for r in outcome.repeats] == ["ok", "ok"], (outcome.why, events)
    await check(slurm, job, store, outcome)
    assert jobs_of(slurm, job) == ["COMPLETED"]


async def test_a_killed_controller_finds_the_job_again(
    slurm: SlurmCluster, shipment: Shipment, tmp_path: Path
) -> None:
    job = make_job(slurm, shipment, repeats=2, steps=100)
    store = make_store(tmp_path)
    first = Controller(tmp_path / "first", shipment, job, store, slurm.targets())
    await eventually(in_phase(store, "window", repeat=1))
    first.kill()
    second = Controller(tmp_path / "second", shipment, job, store, slurm.targets())
    assert await second.end() == 0, second.log.read_text()
    outcome = CaseOutcome.from_json(store.outcome() or {})
    assert [r.status for r in outcome.repeats] == ["ok", "ok"], second.log.read_text()
    assert "submitted" not in second.log.read_text()
    await check(slurm, job, store, outcome)
    assert jobs_of(slurm, job) == ["COMPLETED"]


async def test_a_controller_killed_while_the_job_waits_submits_none_again(
    slurm: SlurmCluster, shipment: Shipment, tmp_path: Path
) -> None:
    """Another job holds the nodes; the queue is shown as what is waited for."""
    words = ["--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 600"]
    other = slurm.run("sbatch", *words).strip()
    job = make_job(slurm, shipment, repeats=1)
    store = make_store(tmp_path)
    first = Controller(tmp_path / "first", shipment, job, store, slurm.targets())
    await eventually(lambda: (store.progress() or {}).get("state") == "waiting")
    assert "Slurm job" in str(store.progress()) or "submitted" in str(store.progress())
    await eventually(lambda: jobs_of(slurm, job) == ["PENDING"])
    first.kill()
    second = Controller(tmp_path / "second", shipment, job, store, slurm.targets())
    await eventually(lambda: "PENDING" in second.log.read_text())
    slurm.run("scancel", other)
    assert await second.end() == 0, second.log.read_text()
    outcome = CaseOutcome.from_json(store.outcome() or {})
    assert outcome.status is CaseStatus.OK, outcome.why
    await check(slurm, job, store, outcome)
    assert jobs_of(slurm, job) == ["COMPLETED"]


async def test_the_time_limit_ends_one_repeat(
    slurm: SlurmCluster, shipment: Shipment, tmp_path: Path
) -> None:
    """Slurm warns, the agents end the repeat and say why, and the next job has the others."""
    job = make_job(slurm, shipment, repeats=2, repeat=1, steps=1200, limits={"repeat_s": 200})
    store, events = make_store(tmp_path), list[GangEvent]()
    began = time.monotonic()
    running = asyncio.create_task(
        measured(slurm, shipment, job, store, events, time_limit_s=60, warning_s=40)
    )
    await eventually(lambda: store.repeat(1) is not None, 120)
    record = store.repeat(1)
    assert record is not None
    print(f"warned and ended {time.monotonic() - began:.0f} s after the start: {record['reasons']}")
    assert record["status"] == "failed"
    codes = {reason["code"] for reason in record["reasons"]}
    assert codes & {ReasonCode.AGENT_SIGNALLED, ReasonCode.BATCH_JOB_ENDED}, record
    await eventually(lambda: len(jobs_of(slurm, job)) == 2, 60)
    await cancel(job, slurm.targets(), "by the drill", store)
    assert (await running).status is CaseStatus.CANCELLED
    assert left(job) == []


async def test_an_agent_dies(slurm: SlurmCluster, shipment: Shipment, tmp_path: Path) -> None:
    """The job ends with it; a new job has the next repeat."""
    job = make_job(slurm, shipment, repeats=2, steps=60)
    store, events = make_store(tmp_path), list[GangEvent]()
    running = asyncio.create_task(measured(slurm, shipment, job, store, events))
    await eventually(in_phase(store, "window", repeat=1))
    agents = [pid for pid, what in left_agents(job) if "serve" in what and "node-n2" in what]
    assert len(agents) == 1
    os.kill(agents[0], signal.SIGKILL)
    outcome = await running
    assert [r.status for r in outcome.repeats] == ["failed", "ok"], (outcome.why, events)
    print("why:", outcome.repeats[0].why)
    await check(slurm, job, store, outcome)
    assert sorted(jobs_of(slurm, job)) == ["COMPLETED", "FAILED"]


def left_agents(job: JobSpec) -> list[tuple[int, str]]:
    """Processes of the job, with their command lines."""
    return marked(job.run_id)


CLUSTER = """\
cluster: farm
shared: true
nodes:
  - {{hosts: n1, ssh_conn_id: farm_login, data_address: 127.0.0.1}}
  - {{hosts: n2, ssh_conn_id: farm_login, data_address: 127.0.0.1}}
environments: {{kind: venv, root: {root}, python: /usr/bin/python3, lock_dir: {locks}}}
known_hosts: {known_hosts}
slurm: {{login: 127.0.0.2, partition: bench, time_limit: 30m}}
"""


def test_the_command_line(slurm: SlurmCluster, tmp_path: Path) -> None:
    """A cluster's YAML and a Connection: doctor, a run to its medians, a cancelled one."""
    target = slurm.target
    assert target is not None
    policy = slurm.environments
    text = CLUSTER.format(root=policy.root, locks=policy.lock_dir, known_hosts=target.known_hosts)
    connection = {
        "conn_type": "ssh",
        "port": target.port,
        "login": target.user,
        "extra": {"key_file": target.client_keys[0]},
    }
    here = Terminal(tmp_path)
    for name, content in (
        ("dags/suites/trial.yaml", TRIAL.replace("cluster: local", "cluster: farm")),
        ("dags/clusters/farm.yaml", text),
        ("home/connections.json", json.dumps({"farm_login": connection})),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    done = here.run("doctor", "farm")
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    done = here.run("run", "trial", "--direct")
    print(done.stdout, done.stderr)
    run = here.newest()
    outcomes = {case["case_id"]: run.case(case["case_id"]).outcome() for case in run.planned()}
    assert len(outcomes) == 3
    assert {outcome["status"] for outcome in outcomes.values() if outcome} == {"ok"}
    assert not slurm.run("squeue", "--noheader").strip()


async def test_a_node_is_lost(slurm: SlurmCluster, shipment: Shipment, tmp_path: Path) -> None:
    """Its slurmd and all that it started die at once; a new job has what is left."""
    job = make_job(slurm, shipment, repeats=2, steps=200, limits={"progress_s": 15})
    store, events = make_store(tmp_path), list[GangEvent]()
    running = asyncio.create_task(measured(slurm, shipment, job, store, events))
    await eventually(in_phase(store, "window", repeat=1))
    there = [
        psutil.Process(pid)
        for pid, _ in marked(job.run_id)
        if b"SLURMD_NODENAME=n2" in Path(f"/proc/{pid}/environ").read_bytes()
    ]
    agents_parent = next(each for each in there if "reap" in each.cmdline())
    slurm.kill("n2")
    # Slurm's own process of the step is the first to go: it would tell srun of its tasks' ends.
    for process in (agents_parent.parent(), *there):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    await eventually(lambda: store.repeat(1) is not None, 120)
    slurm.start("n2")
    outcome = await running
    print("why:", outcome.repeats[0].why)
    assert [r.status for r in outcome.repeats] == ["failed", "ok"], (outcome.why, events)
    await check(slurm, job, store, outcome)
