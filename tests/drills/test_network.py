"""Links that go down, packets that vanish, nodes that come back with something still running."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest
from tests.drills.gangs import (
    agent_log,
    check_accounts,
    eventually,
    in_phase,
    job_dir,
    launches,
    make_job,
    make_store,
    measure,
)
from tests.drills.hosts import Lab, marked

from nightbench.core.model import CaseStatus
from nightbench.gang import GangEvent, Shipment, run_gang

CUTS = {"link down": ("unplug", "plug"), "packets vanish": ("swallow", "forward")}


@pytest.mark.parametrize("cut", CUTS)
async def test_five_seconds_without_a_node(
    lab: Lab, shipment: Shipment, tmp_path: Path, cut: str
) -> None:
    """Nothing is lost: the gang goes on, and so does its controller."""
    for name in ("n1", "n2"):
        lab.host(name)
    n2 = lab.hosts["n2"]
    job = make_job(lab, shipment, repeats=2, steps=40, step_s=0.3)
    store = make_store(tmp_path)
    events: list[GangEvent] = []
    task = asyncio.create_task(measure(lab, shipment, job, store, events))
    await eventually(in_phase(store, "window", repeat=1))
    take, give = CUTS[cut]
    getattr(n2, take)()
    await asyncio.sleep(5)
    getattr(n2, give)()
    outcome = await task
    check_accounts(lab, job, store, outcome)
    assert [(r.repeat, r.status) for r in outcome.repeats] == [(1, "ok"), (2, "ok")]
    assert set(launches(lab, job)) == {(k, f"trainer-{r}") for k in (1, 2) for r in (0, 1)}


@pytest.mark.parametrize("cut", CUTS)
async def test_a_node_is_cut_off_for_good(
    lab: Lab, shipment: Shipment, tmp_path: Path, cut: str
) -> None:
    """The gang fails and names the node; beyond the cut the lease ends what still runs."""
    for name in ("n1", "n2"):
        lab.host(name)
    n1, n2 = lab.hosts["n1"], lab.hosts["n2"]
    job = make_job(
        lab, shipment, repeats=3, steps=400, step_s=0.3, limits={"lease_s": 8}, daemon=True
    )
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=1))
    getattr(n2, CUTS[cut][0])()
    outcome = await asyncio.wait_for(task, 200)
    assert outcome.status is CaseStatus.FAILED
    assert "n2: unreachable" in outcome.repeats[0].why
    faults = (store.outcome() or {})["faults"]
    assert [fault["node"] for fault in faults] == ["n2"]
    assert n1.marked(job.run_id) == []
    # Nobody can reach n2, and still nothing is left there.
    await eventually(lambda: n2.marked(job.run_id) == [])
    assert any(entry["event"] == "lease_expired" for entry in agent_log(n2, job))
    assert max(launches(lab, job).values()) == 1


async def test_a_node_comes_back_while_its_job_still_runs(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """A long lease, a controller that is killed and another after the cut: one launch each."""
    for name in ("n1", "n2"):
        lab.host(name)
    n2 = lab.hosts["n2"]
    job = make_job(lab, shipment, repeats=2, steps=100, step_s=0.3, limits={"lease_s": 120})
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=1))
    n2.swallow()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    # A controller that comes while the node is away waits for it, as long as the lease lasts.
    again = asyncio.create_task(run_gang(job, lab.targets(), store))
    await asyncio.sleep(15)
    assert not again.done()
    assert n2.marked(job.run_id)
    n2.forward()
    outcome = await again
    check_accounts(lab, job, store, outcome)
    assert [(r.repeat, r.status) for r in outcome.repeats] == [(1, "ok"), (2, "ok")]


async def test_what_a_returning_node_still_runs_is_swept_first(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """Cut off, its agent and its parent die, a daemon stays: the next case finds a clean node."""
    for name in ("n1", "n2"):
        lab.host(name)
    n2 = lab.hosts["n2"]
    job = make_job(lab, shipment, repeats=1, steps=400, step_s=0.3, daemon=True)
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=1))
    n2.unplug()
    agents = [pid for pid, command in n2.marked(job.run_id) if "agent.py" in command]
    assert len(agents) == 2
    # Both at once: the agent's parent ends what it leaves.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in agents:
            os.kill(pid, number)
    outcome = await task
    assert outcome.status is CaseStatus.FAILED
    orphans = n2.marked(job.run_id)
    assert orphans, "the daemon has no agent any more, nothing there ends it"
    n2.plug()
    n2.wait_for_ssh()
    after = make_job(lab, shipment, repeats=1)
    events: list[GangEvent] = []
    other = make_store(tmp_path, "other")
    again = await measure(lab, shipment, after, other, events)
    check_accounts(lab, after, other, again)
    assert again.status is CaseStatus.OK
    assert marked(job.run_id) == []
    swept = [event for event in events if event.kind == "sweep" and event.node == "n2"]
    assert swept, "it is said what was ended"


async def test_a_node_reboots(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """Noticed within the heartbeat's limit; the next repeat runs on the rebooted node."""
    for name in ("n1", "n2"):
        lab.host(name)
    n2 = lab.hosts["n2"]
    job = make_job(lab, shipment, repeats=3, steps=40, step_s=0.2, limits={"lease_s": 60})
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=2))
    await asyncio.to_thread(n2.crash)
    assert job_dir(n2, job).is_dir(), "the job directory is on the disk"
    await asyncio.to_thread(time.sleep, 2)
    await asyncio.to_thread(n2.boot)
    came_back_s = time.monotonic()
    await eventually(lambda: (store.repeat(2) or {}).get("status"), 60)
    assert time.monotonic() - came_back_s < 45
    outcome = await task
    check_accounts(lab, job, store, outcome)
    assert [r.status for r in outcome.repeats] == ["ok", "failed", "ok"]
    reason = outcome.repeats[1].why
    assert "n2" in reason
    assert "reboot" in reason or "agent died" in reason, reason
    boots = [
        json.loads((job_dir(n2, job) / f"repeats/{k}/result.json").read_text())["boot_id"]
        for k in ("001", "003")
    ]
    assert boots[0] != boots[1]


async def test_a_node_loses_power_for_good(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """The others are freed, the case says who is missing."""
    for name in ("n1", "n2"):
        lab.host(name)
    job = make_job(lab, shipment, repeats=3, steps=400, step_s=0.2, limits={"lease_s": 8})
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=1))
    await asyncio.to_thread(lab.hosts["n2"].crash)
    outcome = await asyncio.wait_for(task, 200)
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.FAILED
    assert "n2: unreachable" in outcome.repeats[0].why
    assert "None" not in outcome.repeats[0].why
    assert "n2" in outcome.why
    nodes = [{fault.node for fault in repeat.faults} for repeat in outcome.repeats]
    assert nodes == [{"n2"}, {"n2"}]


@pytest.mark.parametrize("how", ["restarted", "killed with its sessions"])
async def test_the_ssh_server_goes_away_for_a_while(
    lab: Lab, shipment: Shipment, tmp_path: Path, how: str
) -> None:
    """Agents and ranks do not hang on it."""
    for name in ("n1", "n2"):
        lab.host(name)
    n2 = lab.hosts["n2"]
    job = make_job(lab, shipment, repeats=1, steps=40, step_s=0.3)
    store = make_store(tmp_path)
    events: list[GangEvent] = []
    task = asyncio.create_task(measure(lab, shipment, job, store, events))
    await eventually(in_phase(store, "window"))
    if how == "restarted":
        n2.restart_sshd()
    else:
        n2.kill_sshd()
        await asyncio.sleep(3)
        n2.start_sshd()
    outcome = await task
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.OK
    if how != "restarted":
        assert {"lost", "back"} <= {event.kind for event in events if event.node == "n2"}


async def test_a_slow_network_is_only_slow(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """One Mbit/s for everything that Nightbench says and fetches."""
    for name in ("n1", "n2"):
        lab.host(name).limit("1mbit")
    job = make_job(lab, shipment, repeats=1)
    store = make_store(tmp_path)
    outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.OK
