"""Runs pytest, and ends every process and removes every folder that it leaves.

`python -m tests.contained -n 4`

Servers of a test outlive a worker that is killed, and xdist kills its workers when its controller
gets a SIGINT or is killed itself. An orphan becomes a child of its nearest ancestor that is a
subreaper (prctl(2)), which this process is: whatever was started, in a session of its own or as a
daemon, is found below it when pytest has ended. Servers keep their files in `SERVERS`, which is
removed after them; that of a run that was killed itself is removed by the next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from tests import programs

PR_SET_CHILD_SUBREAPER = 36
SI_KERNEL = 0x80
SERVERS = "NIGHTBENCH_TEST_SERVERS"
"""Variable with the folder for the files of servers."""

PLACE = Path("/tmp")
"""Short: PostgreSQL refuses long paths."""

PATIENCE_S = 2.0
ROUNDS = 3
SIGNALS = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(argv: Sequence[str]) -> int:
    """Run a command, and return its exit status when nothing is left of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    # A shell's background job ignores SIGINT, and passes that on.
    with _folder_of_servers() as folder:
        env = {**os.environ, SERVERS: str(folder)}
        # Without bytecode each of the thousands of processes compiles our code anew: a second of
        # CPU for each `nightbench`, and ten for each worker, whose assertions pytest rewrites.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env["PATH"] = without_shims(env.get("PATH", os.defpath))
        child = os.posix_spawn(argv[0], list(argv), env, setsigmask=(), setsigdef=(signal.SIGINT,))
        status = None
        while status is None:
            told = signal.sigwaitinfo(SIGNALS)
            if told.si_signo == signal.SIGCHLD:
                status = _reap(child)
            elif told.si_code != SI_KERNEL:  # a terminal tells the whole group, pytest included
                os.kill(child, told.si_signo)
        _end_rest()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def without_shims(path: str) -> str:
    """Return PATH with the folder of this interpreter before that of pyenv's or asdf's shims.

    A shim starts some twenty processes before the `python3` of a node, at twice its cost.
    """
    folders = path.split(os.pathsep)
    for number, folder in enumerate(folders):
        if Path(folder).name == "shims":
            return os.pathsep.join(
                [*folders[:number], str(Path(sys.executable).resolve().parent), *folders[number:]]
            )
    return path


def folder_of_server(prefix: str) -> Path:
    """Make a folder for the files of a server; the run removes it, whatever ends the test."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=os.environ.get(SERVERS, PLACE)))


@contextmanager
def _folder_of_servers() -> Iterator[Path]:
    """Make the folder of this run, and remove it at the end; first those of killed runs."""
    for left in PLACE.glob("nbtest-[0-9]*"):
        pid = int(left.name.removeprefix("nbtest-"))
        is_over = pid == os.getpid() or not psutil.pid_exists(pid)
        if is_over and left.stat().st_uid == os.getuid():
            shutil.rmtree(left)
    folder = PLACE / f"nbtest-{os.getpid()}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _reap(child: int) -> int | None:
    """Take the statuses of all that has ended; return the child's, or None while it runs."""
    status = None
    while (ended := _ended()) is not None:
        if ended[0] == child:
            status = ended[1]
    return status


def _ended() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _end_rest() -> None:
    """End what is left below this process, and what that starts meanwhile."""
    for end in (psutil.Process.terminate, *[psutil.Process.kill] * ROUNDS):
        left = _below()
        if not left:
            return
        print(f"ending what the tests left: {', '.join(sorted(left.values()))}", file=sys.stderr)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended in this moment
                end(process)
        until_s = time.monotonic() + PATIENCE_S
        while _below() and time.monotonic() < until_s:
            time.sleep(0.1)


def _below() -> dict[psutil.Process, str]:
    """Return all processes below this one that live, by name; those that have ended are reaped."""
    while _ended() is not None:
        pass
    living = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                living[process] = process.name()
    return living


if __name__ == "__main__":
    programs.provide()
    sys.exit(run([sys.executable, "-m", "pytest", *sys.argv[1:]]))
