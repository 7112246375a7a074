"""Disks that are full, on a node and on the controller."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.drills.gangs import (
    check_accounts,
    eventually,
    in_phase,
    left,
    make_job,
    make_store,
    measure,
)
from tests.drills.hosts import Lab

from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus
from nightbench.gang import DiskFull, Shipment, cancel, run_gang
from nightbench.spool import CaseStore

DATA = {"root": "/data/nightbench"}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A small disk of the controller."""
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    subprocess.run(words, check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_no_room_on_a_node_before_anything_runs(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """A sentence that names node and folder, no half-written code that a later run would use."""
    for name in ("n1", "n2"):
        lab.host(name).disk("/data", 40_000_000)
    n2 = lab.hosts["n2"]
    job = make_job(lab, shipment, repeats=1, environments=DATA)
    store = make_store(tmp_path)
    n2.fill("/data", leave_bytes=100_000)
    with pytest.raises(DiskFull, match=r"n2.*environments\.root"):
        await measure(lab, shipment, job, store)
    code = n2.path("/data/nightbench/code")
    assert not code.exists() or not [p for p in code.iterdir() if not p.name.startswith(".")]
    assert left(job) == []
    n2.relieve("/data")
    outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.OK


async def test_the_controllers_disk_is_full(
    lab: Lab, shipment: Shipment, tmp_path: Path, small: Path
) -> None:
    """Clear failure; the gang stays accounted for and a later controller goes on with it."""
    for name in ("n1", "n2"):
        lab.host(name)
    job = make_job(lab, shipment, repeats=2, steps=40, step_s=0.1)
    store = make_store(small)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=1))
    filler = small / "filler"
    fill(filler)
    with pytest.raises(UserError, match=r"(?i)no space left|no room|disk is full") as caught:
        await asyncio.wait_for(task, 120)
    assert str(small) in str(caught.value)
    assert_whole(store)
    filler.unlink()
    outcome = await run_gang(job, lab.targets(), store)
    check_accounts(lab, job, store, outcome)
    assert [(r.repeat, r.status) for r in outcome.repeats] == [(1, "ok"), (2, "ok")]


async def test_a_case_is_cancelled_while_the_controllers_disk_is_full(
    lab: Lab, shipment: Shipment, tmp_path: Path, small: Path
) -> None:
    """Ending what runs needs no disk here."""
    for name in ("n1", "n2"):
        lab.host(name)
    job = make_job(lab, shipment, repeats=1, steps=400, step_s=0.2)
    store = make_store(small)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=1))
    fill(small / "filler")
    await asyncio.gather(task, return_exceptions=True)
    await cancel(job, lab.targets())
    assert left(job) == []


def fill(path: Path) -> None:
    """Take all room, to the last byte."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


def assert_whole(store: CaseStore) -> None:
    """Whatever lies in the spool can be read: nothing is torn."""
    store.progress(), store.outcome()
    for number in store.repeats():
        store.repeat(number), store.results(number)
