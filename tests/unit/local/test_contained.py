"""`python -m tests.contained`: nothing that tests started outlives a pytest that is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.contained import without_shims

REPO = Path(__file__).resolve().parents[3]
TEST = """\
import os, pathlib, subprocess, sys, time

from tests.contained import folder_of_server

def test_it():
    made = folder_of_server("server-")
    (made / "data").touch()
    pathlib.Path("made").write_text(str(made))
    daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(600)"
    subprocess.run([sys.executable, "-c", daemon, "daemon-of-" + os.environ["MARK"]], check=True)
    server = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); "
              "time.sleep(600)", "server-of-" + os.environ["MARK"]]
    subprocess.Popen(server, start_new_session=True)
    pathlib.Path("ready").touch()
    time.sleep(float(os.environ["LASTS_S"]))
"""


@pytest.fixture
def mark() -> Iterator[str]:
    name = f"{os.getpid()}-{time.monotonic_ns()}"
    yield name
    for process in marked(name):
        process.kill()


def marked(mark: str) -> list[psutil.Process]:
    """The daemon and the server of the inner test."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if words and words[-1] in (f"daemon-of-{mark}", f"server-of-{mark}"):
            found.append(process)
    return found


@contextmanager
def contained(folder: Path, mark: str, lasts_s: float) -> Iterator[subprocess.Popen[str]]:
    (folder / "test_inner.py").write_text(TEST)
    words = ["-n", "1", "-q", "-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.contained", *words, "test_inner.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPO), "MARK": mark, "LASTS_S": str(lasts_s)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as outer:
        try:
            yield outer
        finally:
            outer.terminate()


def wait_until_it_runs(folder: Path, mark: str) -> None:
    limit_s = time.monotonic() + 240
    while not (folder / "ready").exists() or len(marked(mark)) < 2:
        assert time.monotonic() < limit_s
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 2), (signal.SIGKILL, 128 + signal.SIGKILL)]
)
def test_a_controller_that_is_ended_leaves_nothing(
    tmp_path: Path, mark: str, number: signal.Signals, status: int
) -> None:
    with contained(tmp_path, mark, 600.0) as outer:
        wait_until_it_runs(tmp_path, mark)
        below = psutil.Process(outer.pid).children()
        (controller,) = [each for each in below if "pytest" in each.cmdline()]
        controller.send_signal(number)
        said, _ = outer.communicate(timeout=240)
    assert outer.returncode == status, said
    assert marked(mark) == []
    assert "ending what the tests left" in said
    assert not Path((tmp_path / "made").read_text()).parent.exists()


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path, mark: str) -> None:
    with contained(tmp_path, mark, 600.0) as outer:
        wait_until_it_runs(tmp_path, mark)
        below = psutil.Process(outer.pid).children(recursive=True)
        outer.kill()
        for process in below:
            process.kill()
        outer.communicate(timeout=240)
    left = Path((tmp_path / "made").read_text())
    assert (left / "data").exists()
    with contained(tmp_path, mark, 0.0) as outer:
        said, _ = outer.communicate(timeout=240)
    assert outer.returncode == 0, said
    assert not left.parent.exists()


def test_a_signal_to_the_outer_process_reaches_pytest(tmp_path: Path, mark: str) -> None:
    with contained(tmp_path, mark, 600.0) as outer:
        wait_until_it_runs(tmp_path, mark)
        outer.terminate()
        said, _ = outer.communicate(timeout=240)
    assert outer.returncode != 0, said
    assert marked(mark) == []


def test_the_status_is_pytests(tmp_path: Path, mark: str) -> None:
    with contained(tmp_path, mark, 0.0) as outer:
        said, _ = outer.communicate(timeout=240)
    assert outer.returncode == 0, said
    assert "1 passed" in said
    assert marked(mark) == []


def test_this_interpreter_comes_before_shims() -> None:
    direct = str(Path(sys.executable).resolve().parent)
    shimmed = f"/first:/home/u/.pyenv/shims:{os.defpath}"
    assert without_shims(shimmed) == f"/first:{direct}:/home/u/.pyenv/shims:{os.defpath}"
    assert without_shims(os.defpath) == os.defpath
