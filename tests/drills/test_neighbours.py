"""Somebody else's work on a node, before and inside the window.

Each host has one core of its own here: what other hosts and the test itself do on this machine
is not to be seen on it, as on separate machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.drills.gangs import (
    agent_log,
    check_accounts,
    eventually,
    in_phase,
    launches,
    make_job,
    make_store,
    measure,
)
from tests.drills.hosts import PYTHON, Host, Lab

from nightbench.core.model import CaseStatus, JobSpec, NeighbourPolicy
from nightbench.gang import GangEvent, Shipment

SHARE = 0.1


@contextlib.contextmanager
def somebody_works(host: Host) -> Iterator[None]:
    """A stranger takes core 0 of the host, and gets it, whoever else is on this machine."""
    spin = ["taskset", "-c", "0", PYTHON, "-c", "while True: pass"]
    worker = host.start(spin, user="neighbour", nice=-15)
    try:
        yield
    finally:
        end(worker)


def end(worker: subprocess.Popen[bytes]) -> None:
    """End a stranger's process: nsenter's child first, which would outlive it."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    with contextlib.suppress(OSError):
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
    worker.kill()
    worker.wait()


def on_one_core(job: JobSpec) -> JobSpec:
    """Every node measures on core 0."""
    return dataclasses.replace(
        job, nodes=tuple(dataclasses.replace(node, cpus=(0,)) for node in job.nodes)
    )


async def test_a_busy_node_is_waited_for(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """Visibly, with who works there; nothing is launched before they are done."""
    for name in ("n1", "n2"):
        lab.host(name)
    policy = NeighbourPolicy(action="wait", wait_s=120, cpu_share=SHARE)
    job = on_one_core(make_job(lab, shipment, repeats=1, neighbours=policy))
    store = make_store(tmp_path)
    events: list[GangEvent] = []
    with somebody_works(lab.hosts["n2"]):
        task = asyncio.create_task(measure(lab, shipment, job, store, events))
        shown = await eventually(
            lambda: (
                "neighbour" in ((store.progress() or {}).get("message") or "") and store.progress()
            ),
            180,
            "who is waited for is not shown",
        )
        assert "n2" in shown["message"]
        assert "python" in shown["message"]
        await asyncio.sleep(6)
        assert not task.done(), task.result()
        assert not launches(lab, job)
    outcome = await task
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.OK


@pytest.mark.parametrize("action", ["refuse", "wait"])
async def test_a_node_that_stays_busy(
    lab: Lab, shipment: Shipment, tmp_path: Path, action: str
) -> None:
    """Refused at once, or when the patience ends, with who works there."""
    for name in ("n1", "n2"):
        lab.host(name)
    policy = NeighbourPolicy(action=action, wait_s=6, cpu_share=SHARE)
    job = on_one_core(make_job(lab, shipment, repeats=2, neighbours=policy))
    store = make_store(tmp_path)
    with somebody_works(lab.hosts["n2"]):
        outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.FAILED
    assert not launches(lab, job)
    reason = outcome.why
    assert "n2" in reason
    assert "in use" in reason, reason
    assert "neighbour" in reason, reason


@pytest.mark.parametrize("action", ["record", "wait"])
async def test_work_inside_the_window(
    lab: Lab, shipment: Shipment, tmp_path: Path, action: str
) -> None:
    """The repeat is kept as disturbed, not counted, and launched again."""
    for name in ("n1", "n2"):
        lab.host(name)
    policy = NeighbourPolicy(action=action, wait_s=120, cpu_share=SHARE)
    job = on_one_core(make_job(lab, shipment, repeats=2, steps=100, step_s=0.1, neighbours=policy))
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=1), 180)
    with somebody_works(lab.hosts["n2"]):
        await asyncio.sleep(6)
    outcome = await task
    check_accounts(lab, job, store, outcome)
    if action == "record":
        # Only written down: the site has said that its nodes are never alone.
        assert [r.status for r in outcome.repeats] == ["ok", "ok"]
    else:
        assert [r.status for r in outcome.repeats] == ["disturbed", "ok", "ok"]
        assert outcome.status is CaseStatus.OK
        assert "neighbour" in outcome.repeats[0].why
    first = store.result(1, "n2")
    assert first is not None
    assert first["status"] == "ok"
    assert first["disturbed"]["share"] > SHARE
    assert any(p["user"] == "neighbour" for p in first["disturbed"]["processes"])
    assert (store.result(1, "n1") or {})["disturbed"] is None
    assert (store.result(2, "n2") or {})["disturbed"] is None


async def test_the_budget_for_disturbed_repeats_ends(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """Somebody who starts anew in every window does not keep the night for ever."""
    for name in ("n1", "n2"):
        lab.host(name)
    policy = NeighbourPolicy(action="wait", wait_s=120, cpu_share=SHARE, budget=1)
    job = on_one_core(make_job(lab, shipment, repeats=3, steps=200, step_s=0.1, neighbours=policy))
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    for repeat in (1, 2):
        await eventually(in_phase(store, "window", repeat=repeat), 180)
        with somebody_works(lab.hosts["n1"]):
            await eventually(lambda k=repeat: task.done() or store.repeat(k) is not None, 180)
    outcome = await task
    check_accounts(lab, job, store, outcome)
    assert [r.status for r in outcome.repeats] == ["disturbed", "disturbed"]
    assert outcome.status is CaseStatus.FAILED
    assert "disturbed" in outcome.why


async def test_our_own_work_is_not_foreign(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """Ranks, their daemons and the agent use the cores: nobody is disturbed by that."""
    for name in ("n1", "n2"):
        lab.host(name)
    policy = NeighbourPolicy(action="refuse", cpu_share=0.3)
    job = on_one_core(make_job(lab, shipment, repeats=3, steps=40, daemon=True, neighbours=policy))
    store = make_store(tmp_path)
    outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    assert [r.status for r in outcome.repeats] == ["ok", "ok", "ok"], outcome.repeats
    assert not [e for e in agent_log(lab.hosts["n1"], job) if e["event"] == "neighbours"]
