"""The trigger of a gang: a defect in the triggerer, and a person who ends the task."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.short_suite import RUN, SINGLE, files, plan, short_spool

from nightbench.core.errors import UserError
from nightbench.core.model import JobSpec
from nightbench.gang import GangEvent
from nightbench.orchestration.gang_trigger import GangTrigger
from nightbench.spool import RunSpool, Spool
from nightbench.spool.plans import load_job


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    return short_spool(tmp_path, monkeypatch)


def test_a_defect_in_the_triggerer_ends_the_case_on_the_last_try(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, night="budget: 3h")
    _, run = plan(spool, night=True)

    async def look_up(self: GangTrigger) -> None:
        raise KeyError("nodes")

    monkeypatch.setattr(GangTrigger, "_look_up", look_up)

    def control(last_try: bool) -> None:
        trigger = GangTrigger(RUN, SINGLE, 0, last_try=last_try)
        with pytest.raises(KeyError):
            asyncio.run(anext(trigger.run()))

    control(last_try=False)
    assert run.case(SINGLE).outcome() is None
    control(last_try=True)
    assert "KeyError('nodes')" in (run.case(SINGLE).outcome() or {})["reasons"][0]["observed"]


BY_USER = "user-action"
"""Airflow calls `on_kill` only where the cancellation that reaches it has its message."""


def test_a_person_who_ends_the_task_is_noticed_whatever_the_gang_waits_for(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path)
    plan(spool)
    waits = asyncio.Event()

    async def ends_in_time() -> None:
        waits.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    async def look_up(self: GangTrigger) -> None:
        await asyncio.gather(ends_in_time())  # Cancelled, it raises an error without a message.

    monkeypatch.setattr(GangTrigger, "_look_up", look_up)

    async def end_by_person() -> None:
        running = asyncio.ensure_future(anext(GangTrigger(RUN, SINGLE, 0).run()))
        await waits.wait()
        running.cancel(BY_USER)
        await running

    with pytest.raises(asyncio.CancelledError, match=BY_USER):
        asyncio.run(end_by_person())


def test_a_gang_is_ended_though_airflow_cancels_its_trigger_again_and_again(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path)
    _, run = plan(spool)
    looked_up = []

    async def look_up(self: GangTrigger) -> None:
        await asyncio.sleep(0.2)
        looked_up.append(SINGLE)
        raise UserError("node-a: no answer")

    monkeypatch.setattr(GangTrigger, "_look_up", look_up)

    async def end_by_person() -> None:
        killing = asyncio.ensure_future(GangTrigger(RUN, SINGLE, 0).on_kill())
        while not killing.done():
            await asyncio.sleep(0.05)
            killing.cancel(BY_USER)
        await outcome_of(run, wait_s=5)  # the triggerer runs on

    asyncio.run(end_by_person())

    assert looked_up == [SINGLE]
    assert (run.case(SINGLE).outcome() or {})["status"] == "cancelled"


async def outcome_of(run: RunSpool, wait_s: float) -> dict[str, Any] | None:
    """The case's outcome, which the triggerer may write after its trigger has ended."""
    until_s = time.monotonic() + wait_s
    while (found := run.case(SINGLE).outcome()) is None and time.monotonic() < until_s:
        await asyncio.sleep(0.05)
    return found


@pytest.mark.parametrize(
    ("message", "epochs", "ends"),
    [(BY_USER, (), True), (BY_USER, (1,), True), (BY_USER, (1, 2), False), (None, (1,), False)],
)
def test_a_cancelled_trigger_ends_its_gang_where_a_person_ended_the_task(
    spool: Spool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    message: str | None,
    epochs: tuple[int, ...],
    ends: bool,
) -> None:
    """Under load Airflow never comes to `on_kill`: its next cancellation meets the log line that
    it writes before the call. A triggerer that stops leaves its gangs running, and so does one
    that was silent: another triggerer has claimed a higher epoch."""
    files(tmp_path)
    _, run = plan(spool)
    waits = asyncio.Event()

    async def look_up(self: GangTrigger) -> None:
        if waits.is_set():
            raise UserError("node-a: no answer")
        for number in epochs:
            if number == epochs[0]:
                self._on_event(GangEvent("epoch", "claimed", epoch=number))
            run.case(SINGLE).save_epoch(number)
        waits.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(GangTrigger, "_look_up", look_up)

    async def cancelled() -> dict[str, Any] | None:
        running = asyncio.ensure_future(anext(GangTrigger(RUN, SINGLE, 0).run()))
        await waits.wait()
        running.cancel(message)
        with suppress(asyncio.CancelledError):
            await running
        return await outcome_of(run, wait_s=5 if ends else 0.5)

    found = asyncio.run(cancelled())

    assert (found or {}).get("status") == ("cancelled" if ends else None)


@pytest.mark.parametrize("last_try", [True, False])
def test_pods_of_a_case_that_cannot_be_controlled_are_deleted_on_the_last_try(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_try: bool
) -> None:
    files(tmp_path)
    _, run = plan(spool)
    deleted = []

    async def look_up(self: GangTrigger) -> Any:
        return load_job(run, SINGLE, 0), {}

    async def away(*_: object, **more: object) -> None:
        raise UserError("node-a: no answer")

    async def delete(job: JobSpec, *_: object) -> None:
        deleted.append(job.job_id)

    monkeypatch.setattr(GangTrigger, "_look_up", look_up)
    monkeypatch.setattr("nightbench.orchestration.gang_trigger.run_gang", away)
    monkeypatch.setattr("nightbench.orchestration.gang_trigger.delete_pods_of", delete)
    trigger = GangTrigger(RUN, SINGLE, 0, last_try=last_try)
    asyncio.run(anext(trigger.run()))
    assert len(deleted) == int(last_try)
