"""Homes that several hosts share, nodes behind another one, and logins of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial
from pathlib import Path

import pytest
from tests.drills.gangs import (
    agent_log,
    check_accounts,
    eventually,
    in_phase,
    job_dir,
    launches,
    left,
    make_job,
    make_store,
    measure,
)
from tests.drills.hosts import Lab

from nightbench.core.model import CaseStatus, Strategy
from nightbench.gang import Shipment, cancel
from nightbench.gang.node_access import CODE_DIGITS


async def test_one_home_for_all_hosts(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """Code is brought once or harmlessly twice; locks, jobs and results do not mix."""
    n1 = lab.host("n1")
    for name in ("n2", "n3"):
        lab.host(name, shares_home_of=n1)
    jobs = [
        make_job(lab, shipment, nodes=("n1", "n2"), repeats=2, daemon=True),
        make_job(lab, shipment, nodes=("n3", "n2"), repeats=2, daemon=True),
        make_job(lab, shipment, nodes=("n3",), repeats=2),
    ]
    stores = [make_store(tmp_path, f"run-{k}") for k in range(3)]
    outcomes = await asyncio.gather(
        *(measure(lab, shipment, job, store) for job, store in zip(jobs, stores, strict=True))
    )
    for job, store, outcome in zip(jobs, stores, outcomes, strict=True):
        assert outcome.status is CaseStatus.OK, outcome.why
        assert max(launches(lab, job).values()) == 1
        assert [r.status for r in outcome.repeats] == ["ok", "ok"]
        for number in (1, 2):
            assert sorted(store.results(number)) == sorted(node.name for node in job.nodes)
            for name, result in store.results(number).items():
                assert result["node"] == name
    for job in jobs:
        await eventually(partial(lambda job: left(job) == [], job), 5)
    code = n1.home / "bench/.nightbench-node/code"
    assert [p.name for p in code.iterdir()] == [shipment.code_digest()[:CODE_DIGITS]], (
        "nothing half-unpacked"
    )
    # The nodes' locks are on each host's own disk.
    for host in lab.hosts.values():
        assert len(list(host.path("/tmp/nightbench-locks").glob("*.lock"))) == 1
    assert not list(n1.home.rglob("nightbench-locks"))


async def test_jobs_on_the_nodes_own_disks(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """With `job_root` what changes every second stays off the shared home."""
    n1 = lab.host("n1")
    n2 = lab.host("n2", shares_home_of=n1)
    own = {"job_root": "/tmp/nightbench-jobs"}
    job = make_job(lab, shipment, nodes=("n1", "n2"), environments=own)
    outcome = await measure(lab, shipment, job, make_store(tmp_path))
    assert outcome.status is CaseStatus.OK, outcome.why
    assert not (n1.home / "bench/.nightbench-node/jobs").exists()
    for host in (n1, n2):
        folder = host.path("/tmp/nightbench-jobs/jobs") / job.job_id
        assert [path.name for path in folder.iterdir()] == [host.name]
    await cancel(job, lab.targets())
    await eventually(lambda: left(job) == [], 5)


async def test_a_sweep_on_a_shared_home_leaves_other_hosts_alone(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """Marks are looked for on the host itself; a neighbour host's job goes on."""
    n1 = lab.host("n1")
    lab.host("n2", shares_home_of=n1)
    one = make_job(lab, shipment, nodes=("n1",), repeats=1, steps=60, step_s=0.2)
    two = make_job(lab, shipment, nodes=("n2",), repeats=1, steps=400, step_s=0.2, daemon=True)
    stores = [make_store(tmp_path, name) for name in ("one", "two")]
    tasks = [
        asyncio.create_task(measure(lab, shipment, job, store))
        for job, store in zip((one, two), stores, strict=True)
    ]
    for store in stores:
        await eventually(in_phase(store, "window"))
    await cancel(two, lab.targets(), "not wanted", stores[1])
    assert left(two) == []
    assert lab.hosts["n1"].marked(one.run_id)
    assert (await tasks[1]).status is CaseStatus.CANCELLED
    outcome = await tasks[0]
    check_accounts(lab, one, stores[0], outcome)
    assert outcome.status is CaseStatus.OK


@pytest.mark.parametrize("strategy", [Strategy.COLLECTIVE, Strategy.PARAMETER_SERVER])
async def test_cancelled_at_any_moment(
    lab: Lab, shipment: Shipment, tmp_path: Path, strategy: Strategy
) -> None:
    """Whatever the gang was doing: ended everywhere, and said so."""
    for name in ("n1", "n2"):
        lab.host(name)
    for number, delay_s in enumerate((0.3, 0.9, 1.6, 2.5, 4.0, 6.0)):
        job = make_job(
            lab,
            shipment,
            repeats=2,
            steps=40,
            step_s=0.1,
            daemon=True,
            ignore_term=True,
            strategy=strategy,
            sync="async" if strategy is Strategy.PARAMETER_SERVER else "sync",
        )
        store = make_store(tmp_path, f"run-{number}")
        task = asyncio.create_task(measure(lab, shipment, job, store))
        await asyncio.sleep(delay_s)
        if number % 2:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await cancel(job, lab.targets(), "enough", store)
        assert left(job) == []
        if not task.done():
            # Cancelled before anything was there to be told so, it is told again.
            await asyncio.wait([task], timeout=1)
            await cancel(job, lab.targets(), "enough", store)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert left(job) == []
        assert (store.outcome() or {})["status"] == "cancelled"
        assert all(count == 1 for count in launches(lab, job).values())


async def test_nobody_else_may_write_what_is_ours(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """Nobody else on the node may write anything of ours."""
    n1 = lab.host("n1")
    job = make_job(lab, shipment, nodes=("n1",), repeats=1)
    outcome = await measure(lab, shipment, job, make_store(tmp_path))
    assert outcome.status is CaseStatus.OK
    root = n1.home / "bench/.nightbench-node"
    loose = [p for p in root.rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o002]
    assert loose == []
    assert json.loads((job_dir(n1, job) / "job.json").read_text())["job_id"] == job.job_id
    assert agent_log(n1, job)
