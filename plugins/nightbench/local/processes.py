"""Start a service so that it outlives the command, and end it with all that came from it.

A service is known by a pid file that holds its pid and the time at which that pid started
(/proc/PID/stat, field 22): a number alone could be another process's by now. Whatever it starts
inherits the mark `NIGHTBENCH_STACK` in its environment, by which leftovers are found that left
their process group. Nothing without the mark and outside a known group is ever ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from nightbench.local.paths import MARK

PROC = Path("/proc")
ROTATE_BYTES = 20 * 1000**2


@dataclass(frozen=True)
class Service:
    """A service as its pid file knows it; `start_ticks` is in clock ticks since boot."""

    name: str
    pid: int
    start_ticks: int
    started_at: str

    def alive(self) -> bool:
        """Tell whether this very process still runs."""
        return start_ticks(self.pid) == self.start_ticks


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None when it is gone or a zombie."""
    try:
        # The name (field 2) may hold blanks and brackets; the rest follows its last bracket.
        rest = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if rest[0] in (b"Z", b"X") else int(rest[19])


def read(pid_file: Path) -> Service | None:
    """Return the service that a pid file names while it lives, else None."""
    try:
        service = Service(**json.loads(pid_file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None  # absent, or cut off by a crash: there is nothing to hold on to
    return service if service.alive() else None


def start(
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    pid_file: Path,
    home: Path,
    cwd: Path | None = None,
) -> Service:
    """Start a service in a session of its own, its output appended to its log.

    Raises:
        OSError: the program cannot be started.
    """
    if log.exists() and log.stat().st_size > ROTATE_BYTES:
        log.replace(log.with_suffix(log.suffix + ".1"))
    with log.open("ab") as stream:
        stream.write(f"--- {datetime.now(UTC).isoformat(timespec='seconds')} start\n".encode())
        stream.flush()
        child = subprocess.Popen(
            list(argv),
            env={**env, MARK: str(home)},
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
    beside = pid_file.with_suffix(".new")
    beside.write_text(json.dumps(asdict(service)) + "\n", encoding="utf-8")
    os.replace(beside, pid_file)
    return service


def stop(
    pid_file: Path, *, first: signal.Signals = signal.SIGTERM, patience_s: float = 15.0
) -> bool:
    """End a service, its group and its descendants: `first`, then SIGKILL; return if it ran."""
    service = read(pid_file)
    if service is None:
        pid_file.unlink(missing_ok=True)
        return False
    family = {service.pid: service.start_ticks, **descendants(service.pid)}
    _signal_one(service.pid, service.start_ticks, first)
    # A grandchild that the service itself forgets gets its own chance to end in order.
    if not _wait_gone({service.pid: service.start_ticks}, patience_s):
        _signal_group(service, signal.SIGKILL)
    _end({pid: ticks for pid, ticks in family.items() if pid != service.pid}, patience_s=3.0)
    _end({service.pid: service.start_ticks}, patience_s=0.0)
    _reap(service.pid)
    pid_file.unlink(missing_ok=True)
    return True


def leftovers(home: Path, data: Path) -> dict[int, int]:
    """Find processes that came from this home's stack: pid -> start ticks.

    By the mark in the environment; for jobs on the local nodes, whose logins pass no mark on, by
    a node's home folder, which lies in ours; for PostgreSQL's backends, which overwrite their
    environment, by the data directory that they work in. This process and its ancestors are not
    among them.
    """
    mark = f"{MARK}={home}".encode()
    node_home = f"HOME={home.resolve()}/cluster/".encode()
    spared = _lineage(os.getpid())

    def ours(entry: Path) -> bool:
        variables = (entry / "environ").read_bytes().split(b"\0")
        if any(v == mark or v.startswith(node_home) for v in variables):
            return True
        return Path(os.readlink(entry / "cwd")) == data

    return _scan(lambda entry: int(entry.name) not in spared and ours(entry))


def end_leftovers(home: Path, data: Path, patience_s: float = 5.0) -> int:
    """End all that `leftovers` finds, repeatedly, as one may just be starting another."""
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
    children: dict[int, list[int]] = {}
    for entry in _processes():
        parent = _parent(int(entry.name))
        if parent is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found: dict[int, int] = {}
    queue = list(children.get(pid, ()))
    while queue:
        one = queue.pop()
        ticks = start_ticks(one)
        if ticks is not None:
            found[one] = ticks
        queue.extend(children.get(one, ()))
    return found


def tail(log: Path, lines: int = 20) -> list[str]:
    """Return the last lines of a log, or none where there is no log yet."""
    if not log.exists():
        return []
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - 400 * lines))
        return stream.read().decode(errors="replace").splitlines()[-lines:]


def _processes() -> Iterable[Path]:
    return (entry for entry in PROC.iterdir() if entry.name.isdigit())


def _scan(wanted: Callable[[Path], bool]) -> dict[int, int]:
    found: dict[int, int] = {}
    for entry in _processes():
        try:
            ticks = start_ticks(int(entry.name))
            if ticks is not None and wanted(entry):
                found[int(entry.name)] = ticks
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended meanwhile, or it is another user's
    return found


def _parent(pid: int) -> int | None:
    try:
        return int((PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _lineage(pid: int) -> set[int]:
    found: set[int] = set()
    current: int | None = pid
    while current:
        found.add(current)
        current = _parent(current)
    return found


def _signal_one(pid: int, ticks: int, number: signal.Signals) -> None:
    if start_ticks(pid) == ticks:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return  # it ended in this moment: what was wanted


def _signal_group(service: Service, number: signal.Signals) -> None:
    if service.alive():
        try:
            os.killpg(service.pid, number)
        except ProcessLookupError:
            return


def _end(processes: Mapping[int, int], patience_s: float) -> None:
    """SIGTERM where there is patience, then SIGKILL for who is still there."""
    if patience_s > 0:
        for pid, ticks in processes.items():
            _signal_one(pid, ticks, signal.SIGTERM)
        if _wait_gone(processes, patience_s):
            return
    for pid, ticks in processes.items():
        _signal_one(pid, ticks, signal.SIGKILL)
    _wait_gone(processes, 5.0)


def _wait_gone(processes: Mapping[int, int], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while any(start_ticks(pid) == ticks for pid, ticks in processes.items()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _reap(pid: int) -> None:
    """Take the exit status where the service is our own child (`up` and `down` in one process)."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
