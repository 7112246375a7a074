"""What starts again what has died: two processes that look after all others and each other."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nightbench.local import deployment, lifecycle, processes, watchdog
from nightbench.local.home import Home

# Stands for `up`: says that it was called, and fails as long as it is told to.
MENDER = """\
import os, sys
with open({calls!r}, "a") as stream:
    stream.write(" ".join(["up", *sys.argv[1:]]) + "\\n")
sys.exit(1 if os.path.exists({broken!r}) else 0)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "state")
    home.make()
    yield home
    lifecycle.stop_watchdogs(home)
    for service in deployment.SERVICES:
        processes.stop(home.run / f"{service}.pid")


def until(true: Callable[[], object], wait_s: float = 120.0) -> None:
    deadline = time.monotonic() + wait_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_both_run_until_they_are_stopped(home: Home) -> None:
    assert len(list(lifecycle.start_watchdogs(home))) == 1
    assert list(lifecycle.start_watchdogs(home)) == []
    first = processes.read(home.run / "watchdog-a.pid")
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    os.waitpid(first.pid, 0)
    assert len(list(lifecycle.start_watchdogs(home))) == 1
    assert lifecycle.stop_watchdogs(home) == list(deployment.WATCHDOGS)
    assert lifecycle.stop_watchdogs(home) == []


def test_a_dead_service_is_mended_and_failures_are_not_repeated_at_once(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, broken = tmp_path / "calls", tmp_path / "broken"
    broken.touch()
    mender = MENDER.format(calls=str(calls), broken=str(broken))
    monkeypatch.setattr(lifecycle, "watchdog_command", lambda home: [sys.executable, "-c", mender])
    pauses: list[float] = []

    class Enough(Exception):
        pass

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            broken.unlink()
        if len(pauses) == 6:
            raise Enough

    monkeypatch.setattr(watchdog.time, "sleep", sleep)
    with pytest.raises(Enough):
        watchdog.keep(home, ("triggerer",))

    assert calls.read_text() == 5 * "up --once\n"
    first = watchdog.CHECK_S
    assert pauses == [first, 2 * first, 4 * first, 8 * first, first, first]


def test_what_is_healthy_is_left_alone_and_what_stays_sick_is_mended(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    mender = MENDER.format(calls=str(calls), broken=str(tmp_path / "never"))
    monkeypatch.setattr(lifecycle, "watchdog_command", lambda home: [sys.executable, "-c", mender])
    processes.start(
        home,
        "triggerer",
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env=dict(os.environ),
    )
    # What was healthy between is not restarted with what hangs.
    sick = [{"triggerer", "scheduler"}, {"triggerer"}, {"triggerer", "dag-processor"}]
    assert len(sick) == watchdog.UNHEALTHY_IN_A_ROW
    answers = iter([set[str](), {"triggerer"}, set[str](), *sick])

    class Enough(Exception):
        pass

    def ask(home: Home) -> set[str]:
        for answer in answers:
            assert not calls.exists()
            return answer
        raise Enough

    monkeypatch.setattr(watchdog, "_unhealthy", ask)
    monkeypatch.setattr(watchdog.time, "sleep", lambda seconds: None)
    with pytest.raises(Enough):
        watchdog.keep(home, ("triggerer",))
    assert calls.read_text() == "up --once triggerer\n"
