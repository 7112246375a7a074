"""A bench for each test."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.gang.bench import Bench, inline
from tests.unit.gang.simulated import VirtualLoop


@pytest.fixture
def bench(tmp_path, monkeypatch):
    loop = VirtualLoop()
    monkeypatch.setattr("asyncio.to_thread", inline)
    yield Bench(loop, tmp_path)
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(1))
    loop.close()
