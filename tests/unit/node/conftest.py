"""Agents that a test starts are ended with it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from node_driver import NodeDriver
from nodeside.processes import is_running


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[..., NodeDriver]]:
    """Makes NodeDriver objects in a folder of the test's own."""
    made: list[NodeDriver] = []

    def make(document: dict[str, Any], *, start: bool = True, **more: Any) -> NodeDriver:
        driver = NodeDriver(tmp_path, document, **more)
        made.append(driver)
        if start:
            driver.start()
        return driver

    yield make
    for driver in made:
        pid = driver.agent().get("pid")
        if pid is not None and is_running(pid):
            driver.command("stop", epoch=99)
            driver.until_ended()
        for pid in driver.marked():
            os.kill(pid, signal.SIGKILL)
