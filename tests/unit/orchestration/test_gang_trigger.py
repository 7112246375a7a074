"""The trigger of a gang: a defect in the triggerer, and a person who ends the task."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.short_suite import RUN, SINGLE, files, plan, short_spool

from nightbench.core.errors import UserError
from nightbench.orchestration.gang_trigger import GangTrigger
from nightbench.spool import Spool


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

    def steer(last_try: bool) -> None:
        trigger = GangTrigger(RUN, SINGLE, 0, last_try=last_try)
        with pytest.raises(KeyError):
            asyncio.run(anext(trigger.run()))

    steer(last_try=False)
    assert run.case(SINGLE).outcome() is None
    steer(last_try=True)
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
        # The triggerer runs on.
        for _ in range(100):
            if run.case(SINGLE).outcome():
                break
            await asyncio.sleep(0.05)

    asyncio.run(end_by_person())

    assert looked_up == [SINGLE]
    assert (run.case(SINGLE).outcome() or {})["status"] == "cancelled"


def test_a_gang_is_ended_though_airflow_never_comes_to_on_kill(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load Airflow's next cancellation meets the log line that it writes before the call."""
    files(tmp_path)
    _, run = plan(spool)
    waits = asyncio.Event()

    async def look_up(self: GangTrigger) -> None:
        if waits.is_set():
            raise UserError("node-a: no answer")
        waits.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(GangTrigger, "_look_up", look_up)

    async def end_by_person() -> None:
        running = asyncio.ensure_future(anext(GangTrigger(RUN, SINGLE, 0).run()))
        await waits.wait()
        running.cancel(BY_USER)
        with suppress(asyncio.CancelledError):
            await running
        for _ in range(100):
            if run.case(SINGLE).outcome():
                break
            await asyncio.sleep(0.05)

    asyncio.run(end_by_person())

    assert (run.case(SINGLE).outcome() or {})["status"] == "cancelled"


def test_a_triggerer_that_stops_leaves_its_gangs_running(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path)
    _, run = plan(spool)
    waits = asyncio.Event()

    async def look_up(self: GangTrigger) -> None:
        waits.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(GangTrigger, "_look_up", look_up)

    async def stop() -> None:
        running = asyncio.ensure_future(anext(GangTrigger(RUN, SINGLE, 0).run()))
        await waits.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await asyncio.sleep(0.2)

    asyncio.run(stop())

    assert run.case(SINGLE).outcome() is None
