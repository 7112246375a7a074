"""Start a service so that it outlives the command, and end it with every process it has started.

A service is identified by a pid file that holds its pid and the time at which that pid started
(/proc/PID/stat, field 22). The number alone may belong to another process by now. Every process
that a service starts inherits the variable `NIGHTBENCH_STACK`, by which processes that left their
process group are found. A process without it and outside a known group is never ended.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from nightbench.config.control_plane import MARK
from nightbench.local.home import Home, write_private

ROTATE_BYTES = 20 * 1000**2


@dataclass(frozen=True)
class Service:
    """A service as its pid file describes it; `start_ticks` is in clock ticks since boot."""

    name: str
    pid: int
    start_ticks: int
    started_at: str

    def alive(self) -> bool:
        """Return whether this very process still runs."""
        return start_ticks(self.pid) == self.start_ticks


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None when it is gone or a zombie."""
    # psutil returns a date, which changes when somebody sets the machine's clock.
    try:
        # The name (field 2) may hold blanks and brackets; the rest follows its last bracket.
        rest = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if rest[0] in (b"Z", b"X") else int(rest[19])


def read(pid_file: Path) -> Service | None:
    """Return the service that a pid file names if it runs, else None."""
    try:
        service = Service(**json.loads(pid_file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None  # absent, or truncated by a crash
    return service if service.alive() else None


def start(
    home: Home, name: str, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None
) -> Service:
    """Start a service in a session of its own, its output appended to its log.

    Raises:
        OSError: the program cannot be started.
    """
    log, pid_file = home.logs / f"{name}.log", home.run / f"{name}.pid"
    if log.exists() and log.stat().st_size > ROTATE_BYTES:
        log.replace(log.with_suffix(log.suffix + ".1"))
    with log.open("ab") as stream:
        stream.write(f"--- {datetime.now(UTC).isoformat(timespec='seconds')} start\n".encode())
        stream.flush()
        child = subprocess.Popen(
            list(argv),
            env={**env, MARK: str(home.root)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            start_new_session=True,
        )
    service = Service(
        name=name,
        pid=child.pid,
        start_ticks=start_ticks(child.pid) or 0,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    # The child outlives this process on purpose; without this Popen warns when it is collected.
    child.returncode = 0
    write_private(pid_file, json.dumps(asdict(service)) + "\n")
    return service


def stop(
    pid_file: Path, *, first: signal.Signals = signal.SIGTERM, patience_s: float = 15.0
) -> bool:
    """End a service, its group and its descendants: `first`, then SIGKILL; return if it ran."""
    service = read(pid_file)
    if service is None:
        pid_file.unlink(missing_ok=True)
        return False
    itself = {service.pid: service.start_ticks}
    below = descendants(service.pid)
    _signal(itself, first)
    # After the service has ended, its remaining descendants get SIGTERM.
    if not _wait_gone(itself, patience_s) and service.alive():
        with contextlib.suppress(ProcessLookupError):  # it ended in this moment
            os.killpg(service.pid, signal.SIGKILL)
    _end(below, patience_s=3.0)
    _end(itself, patience_s=0.0)
    _reap(service.pid)
    pid_file.unlink(missing_ok=True)
    return True


def leftovers(home: Path, data: Path) -> dict[int, int]:
    """Return the processes that came from this home's services: pid -> start ticks.

    The mark in their environment identifies them. Jobs on the local nodes, whose logins pass no
    mark on, are identified by the node's home folder, which is in the state folder. PostgreSQL's
    backends, which overwrite their environment, are identified by the data directory in which they
    work. This process and its ancestors are not among them.
    """
    node_homes = f"{home.resolve()}/cluster/"
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found: dict[int, int] = {}
    for process in psutil.process_iter():
        if process.pid in spared:
            continue
        try:
            variables = process.environ()
            ours = (
                variables.get(MARK) == str(home)
                or variables.get("HOME", "").startswith(node_homes)
                or process.cwd() == str(data)
            )
        except psutil.Error:
            continue  # it has ended meanwhile, or belongs to another user
        ticks = start_ticks(process.pid) if ours else None
        if ticks is not None:
            found[process.pid] = ticks
    return found


def end_leftovers(home: Path, data: Path, patience_s: float = 5.0) -> int:
    """End the leftovers, and again those that they start meanwhile; return how many."""
    ended = 0
    for _ in range(5):
        found = leftovers(home, data)
        if not found:
            break
        ended += len(found)
        _end(found, patience_s)
    return ended


def descendants(pid: int) -> dict[int, int]:
    """Return children, their children and so on: pid -> start ticks."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return {}
    known = {process.pid: start_ticks(process.pid) for process in below}
    return {pid: ticks for pid, ticks in known.items() if ticks is not None}


def _signal(processes: Mapping[int, int], number: signal.Signals) -> None:
    for pid, ticks in processes.items():
        if start_ticks(pid) == ticks:
            with contextlib.suppress(ProcessLookupError):  # it ended in this moment
                os.kill(pid, number)


def _end(processes: Mapping[int, int], patience_s: float) -> None:
    """Send SIGTERM and wait `patience_s` (0: skip both), then kill what still runs."""
    if patience_s > 0:
        _signal(processes, signal.SIGTERM)
        if _wait_gone(processes, patience_s):
            return
    _signal(processes, signal.SIGKILL)
    _wait_gone(processes, 5.0)


def _wait_gone(processes: Mapping[int, int], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while any(start_ticks(pid) == ticks for pid, ticks in processes.items()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _reap(pid: int) -> None:
    """Take the exit status if the service is our own child (`up` and `down` in one process)."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
