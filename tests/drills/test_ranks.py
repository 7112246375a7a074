"""Ranks that die, refuse to die, or hang."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
from tests.drills.gangs import (
    KILL_S,
    check_accounts,
    eventually,
    in_phase,
    make_job,
    make_store,
    measure,
    seconds_to_kill,
)
from tests.drills.hosts import Lab

from nightbench.core.model import CaseStatus, Strategy
from nightbench.gang import Shipment

WHEN = {
    "warm-up": {"die_at_step": 3},
    "window": {"die_at_step": 12},
    "shutdown": {"die_at_finish": True},
}
HOW = {
    "exit-1": ({"die_code": 1}, "exited with code 1"),
    "sigkill": ({"die_signal": int(signal.SIGKILL)}, "was ended by SIGKILL"),
    "segfault": ({"die_signal": int(signal.SIGSEGV)}, "was ended by SIGSEGV"),
}


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("how", HOW)
async def test_one_rank_dies(
    lab: Lab, shipment: Shipment, tmp_path: Path, when: str, how: str
) -> None:
    """The gang is killed everywhere, the repeat failed with the log's tail, the next goes on."""
    for name in ("n1", "n2", "n3"):
        lab.host(name)
    knobs, said = HOW[how]
    job = make_job(lab, shipment, repeats=2, repeat=1, rank=1, **WHEN[when], **knobs)
    store = make_store(tmp_path)
    outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.OK, outcome.why
    assert [r.status for r in outcome.repeats] == ["failed", "ok"]
    assert f"n2: trainer-1 {said}" in outcome.repeats[0].why
    record = store.repeat(1)
    assert record is not None
    assert "told to die at" in record["log_tail"]
    assert seconds_to_kill(lab, job, 1) < KILL_S


@pytest.mark.parametrize("when", ["warm-up", "window"])
async def test_a_rank_runs_out_of_memory(
    lab: Lab, shipment: Shipment, tmp_path: Path, when: str
) -> None:
    """The kernel kills it; the reason says so, and the node's agent lives."""
    for name in ("n1", "n2"):
        lab.host(name)
    lab.hosts["n2"].limit_memory(150_000_000)
    step = {"warm-up": 3, "window": 12}[when]
    job = make_job(lab, shipment, repeats=2, repeat=1, rank=1, eat_at_step=step)
    store = make_store(tmp_path)
    outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    assert [r.status for r in outcome.repeats] == ["failed", "ok"]
    reason = outcome.repeats[0].why
    assert "n2: the kernel killed trainer-1" in reason
    assert "out of memory" in reason
    assert seconds_to_kill(lab, job, 1) < KILL_S


async def test_a_parameter_server_dies(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """A server is a part of the gang like any other."""
    n1, _ = lab.host("n1"), lab.host("n2")
    job = make_job(
        lab, shipment, strategy=Strategy.PARAMETER_SERVER, repeats=2, step_s=0.2, sync="async"
    )
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "warmup", "window", repeat=1))
    [server] = [p for p, _ in n1.marked(job.run_id) if is_named(p, "pserver-0")]
    os.kill(server, signal.SIGKILL)
    outcome = await task
    check_accounts(lab, job, store, outcome)
    assert [r.status for r in outcome.repeats] == ["failed", "ok"]
    assert "pserver-0 was ended by SIGKILL" in outcome.repeats[0].why


def is_named(pid: int, process: str) -> bool:
    """Whether a pid is this process of a gang."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return f"NIGHTBENCH_PROCESS={process}".encode() in environment


@pytest.mark.parametrize("when", ["a rank fails", "all is well"])
async def test_processes_that_refuse_to_go(
    lab: Lab, shipment: Shipment, tmp_path: Path, when: str
) -> None:
    """SIGTERM ignored, daemons outside session and group: gone all the same."""
    for name in ("n1", "n2"):
        lab.host(name)
    fault = {"die_at_step": 12, "rank": 0} if when == "a rank fails" else {}
    job = make_job(lab, shipment, repeats=2, ignore_term=True, daemon=True, **fault)
    store = make_store(tmp_path)
    outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    wanted = "failed" if fault else "ok"
    assert [r.status for r in outcome.repeats] == [wanted] * 2
    if not fault:
        for result in store.results(1).values():
            assert result["killed"], "the daemon was there and had to be ended"


async def test_a_hung_rank_is_found_by_missing_progress(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """Long before the total limit; its stack is kept."""
    for name in ("n1", "n2"):
        lab.host(name)
    job = make_job(
        lab, shipment, limits={"progress_s": 4, "repeat_s": 600}, repeat=1, rank=1, hang_at_step=12
    )
    store = make_store(tmp_path)
    outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    assert [r.status for r in outcome.repeats] == ["failed", "ok"]
    reason = outcome.repeats[0].why
    assert re.search(r"trainer-1 made no progress: last seen in phase window, step [2-6], ", reason)
    result = store.result(1, "n2")
    assert result is not None
    [process] = result["processes"]
    assert process["stack"], "no stack of the hung process"
    assert "_misbehave" in process["stack"] or "nanosleep" in process["stack"]
