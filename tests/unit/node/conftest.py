"""Agents that a test starts are ended with it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from node_driver import NodeDriver, remove_cgroup, wait_until
from nodeside import cgroups
from nodeside.processes import is_running


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[..., NodeDriver]]:
    """Makes NodeDriver objects in a folder of the test's own."""
    made: list[NodeDriver] = []

    def make(
        document: dict[str, Any], *, start: bool = True, inside: str = "", **more: Any
    ) -> NodeDriver:
        driver = NodeDriver(tmp_path / inside, document, **more)
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
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def apart() -> Iterator[None]:
    """This process and what it starts in cgroups of their own.

    An agent that starts clears what dead agents of its cgroup have left: those of tests beside
    this one would be the first.
    """
    pid, folders = str(os.getpid()), []
    for hierarchy in cgroups._hierarchies():
        folder = Path(hierarchy.folder) / f"test-{pid}"
        try:
            folder.mkdir()
            (folder / "cgroup.procs").write_text(pid)
        except OSError:
            remove_cgroup(folder)
        else:
            folders.append(folder)
    yield
    for folder in folders:
        (folder.parent / "cgroup.procs").write_text(pid)
        wait_until(lambda folder=folder: remove_cgroup(folder), 120.0, "the cgroup to be empty")
