"""Real children and grandchildren: what is started is found again, and ended to the last one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nightbench.local import logfiles, processes
from nightbench.local.home import Home

# Starts a grandchild in a session of its own that ignores SIGTERM, then sleeps.
PARENT = """
import subprocess, sys, time
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
open(sys.argv[1], "w").write(str(child.pid))
print("started", flush=True)
time.sleep(600)
"""


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 120
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(0.02)
    return path.read_text()


@pytest.fixture
def home(tmp_path: Path):
    yield tmp_path
    processes.end_leftovers(tmp_path, tmp_path / "postgres", patience_s=0.2)


def start(home: Path, code: str, *words: str, name: str = "service") -> processes.Service:
    place = Home(home)
    place.make()
    command = [sys.executable, "-c", code, *words]
    return processes.start(place, name, command, env=dict(os.environ))


def test_a_service_is_known_by_pid_and_start_time(home: Path) -> None:
    service = start(home, PARENT, str(home / "child"))
    assert processes.read(home / "run" / "service.pid") == service

    # The same number with another start time is another process: not ours.
    text = (home / "run" / "service.pid").read_text()
    stale = text.replace(str(service.start_ticks), str(service.start_ticks - 1))
    (home / "run" / "service.pid").write_text(stale)
    assert processes.read(home / "run" / "service.pid") is None
    assert processes.stop(home / "run" / "service.pid") is False
    assert service.alive()


def test_stop_ends_a_grandchild_that_left_the_group_and_ignores_sigterm(home: Path) -> None:
    service = start(home, PARENT, str(home / "child"))
    grandchild = int(wait_for(home / "child"))
    assert processes.start_ticks(grandchild) is not None

    assert processes.stop(home / "run" / "service.pid", patience_s=2.0) is True

    assert processes.start_ticks(service.pid) is None
    assert processes.start_ticks(grandchild) is None
    assert not (home / "run" / "service.pid").exists()


def test_leftovers_of_a_killed_service_are_found_by_their_mark(home: Path) -> None:
    service = start(home, PARENT, str(home / "child"))
    grandchild = int(wait_for(home / "child"))
    os.kill(service.pid, signal.SIGKILL)
    os.waitpid(service.pid, 0)

    assert set(processes.leftovers(home, home / "postgres")) == {grandchild}
    assert processes.end_leftovers(home, home / "postgres", patience_s=0.2) == 1
    assert processes.start_ticks(grandchild) is None


def test_another_home_is_left_alone(home: Path) -> None:
    # Its name begins with ours: a prefix is not a match.
    other = Path(f"{home}2")
    other.mkdir()
    service = start(other, PARENT, str(other / "child"))
    wait_for(other / "child")
    try:
        assert processes.end_leftovers(home, home / "postgres") == 0
        assert service.alive()
    finally:
        assert processes.end_leftovers(other, other / "postgres", patience_s=0.2) == 2


def test_a_job_on_a_local_node_is_found_by_its_home_folder(home: Path) -> None:
    node = home / "cluster" / "n1"
    node.mkdir(parents=True)
    job = subprocess.Popen(["sleep", "600"], env={"HOME": str(node)}, start_new_session=True)
    try:
        # Popen returns before the kernel shows the new program's environment.
        deadline = time.monotonic() + 120
        while set(processes.leftovers(home, home / "postgres")) != {job.pid}:
            assert time.monotonic() < deadline, "the job was not found"
            time.sleep(0.02)
    finally:
        job.kill()
        job.wait()


def test_output_goes_to_the_log_and_its_tail_can_be_shown(home: Path) -> None:
    start(home, PARENT, str(home / "child"))
    wait_for(home / "child")
    deadline = time.monotonic() + 120
    while logfiles.tail(home / "logs" / "service.log", 1) != ["started"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_that_ended_is_gone_although_nobody_collected_it(home: Path) -> None:
    service = start(home, "pass")
    deadline = time.monotonic() + 120
    while service.alive():  # a zombie of ours from here on
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert processes.read(home / "run" / "service.pid") is None
    os.waitpid(service.pid, 0)
