"""The lock of an environment on a file system that several hosts share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from node_driver import CODE, PYTHON
from nodeside import buildlock
from nodeside.buildlock import BuildLock

HOLD = """
import sys, time
sys.path.insert(0, sys.argv[1])
from nodeside.buildlock import BuildLock
lock = BuildLock(sys.argv[2], {"user": "somebody"})
assert lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


def lock(path: Path) -> BuildLock:
    return BuildLock(str(path / "lock"), {"user": "me"})


def holder(path: Path) -> subprocess.Popen[str]:
    call = [PYTHON, "-c", HOLD, str(CODE), str(path / "lock")]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_one_of_two_holds_it(tmp_path: Path) -> None:
    first, second = lock(tmp_path), lock(tmp_path)
    assert first.acquire()
    assert not second.acquire()
    assert second.holder()["user"] == "me"
    first.release()
    assert os.listdir(tmp_path) == []
    assert second.acquire()
    first.release()
    assert second.mine(), "who holds it no more does not give it back for others"
    second.release()


def test_a_holder_that_was_killed_here_is_succeeded_at_once(tmp_path: Path) -> None:
    process = holder(tmp_path)
    mine = lock(tmp_path)
    assert not mine.acquire()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert mine.acquire()
    mine.release()
    assert os.listdir(tmp_path) == []


class Clock:
    """Stands in for the module `time`: a busy machine takes longer than any beat of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(buildlock, "time", self)

    def monotonic(self) -> float:
        return self.now_s


def test_a_holder_of_another_host_is_believed_as_long_as_it_beats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    folder = tmp_path / "lock"
    folder.mkdir()
    word = {"word": "theirs", "kernel": "another", "pid": 1, "host": "far"}
    mine = lock(tmp_path)
    for beat in range(5):
        (folder / "holder.json").write_text(json.dumps({**word, "beat": beat}))
        assert not mine.acquire()
        clock.now_s += 0.7 * buildlock.STALE_S
    assert not mine.acquire()
    clock.now_s += 0.7 * buildlock.STALE_S
    assert mine.acquire(), "a word that stood still so long is a dead host's"
    assert mine.holder()["word"] != "theirs"
    mine.release()


def test_a_lock_whose_maker_died_before_its_first_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    (tmp_path / "lock").mkdir()
    mine = lock(tmp_path)
    assert not mine.acquire()
    clock.now_s += 1.1 * buildlock.STALE_S
    assert mine.acquire()
    mine.release()
