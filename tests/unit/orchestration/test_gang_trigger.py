"""The trigger of a gang: what a defect in the triggerer leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.short_suite import RUN, SINGLE, files, plan, short_spool

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
