"""Stacks of processes that make no progress, by the best tool available."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import Any, Mapping, Sequence

from nodeside.files import read_text, write_text
from nodeside.processes import is_running, send

MAX_BYTES = 20_000
TIMEOUT_S = 6.0
"""Limit for all processes together, so that a hanging gang is ended within ten seconds."""
FAULTHANDLER_FILE = "faulthandler.txt"
"""File in a rank's folder to which its handler of SIGUSR2 writes."""
_HANDLER_S = 1.5


def find_tool(wanted: str | None, python: str) -> str | None:
    """Return a py-spy: the named one, one on PATH, or one next to the framework's interpreter."""
    for path in (wanted, shutil.which("py-spy"), os.path.join(os.path.dirname(python), "py-spy")):
        if path and os.access(path, os.X_OK):
            return path
    return None


def take(
    processes: Mapping[str, int], folders: Mapping[str, str], tool: str | None
) -> dict[str, str]:
    """Return stacks of running processes, each also written to stack.txt in its folder.

    Args:
        processes: name -> pid.
        folders: name -> the process's folder.
        tool: a py-spy.

    Returns:
        name -> text of at most `MAX_BYTES`, whose first line names the tool. A tool that is absent
        or not permitted is skipped.
    """
    deadline = time.monotonic() + TIMEOUT_S
    found, why = _by_py_spy(processes, tool, deadline - _HANDLER_S) if tool else ({}, {})
    left = {name: pid for name, pid in processes.items() if name not in found}
    found.update(_by_faulthandler(left, folders, deadline))
    for name, pid in processes.items():
        if name not in found:
            found[name] = _by_proc(pid)
        if name in why:
            found[name] += "\n({})".format(why[name])
        found[name] = _cut(found[name])
        write_text(os.path.join(folders[name], "stack.txt"), found[name] + "\n")
    return found


def _by_py_spy(
    processes: Mapping[str, int], tool: str, deadline: float
) -> tuple[dict[str, str], dict[str, str]]:
    started = {}
    for name, pid in processes.items():
        try:
            started[name] = subprocess.Popen(
                [tool, "dump", "--pid", str(pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError:
            break
    found, why = {}, {}
    for name, popen in started.items():
        text, code = _output(popen, deadline)
        if code == 0 and text:
            found[name] = "py-spy ({}), pid {}\n{}".format(tool, processes[name], text)
        else:
            said = " ".join(text.split())[:200] or "py-spy gave no answer in time"
            why[name] = "py-spy failed: {}".format(said)
    return found, why


def _output(popen: Any, deadline: float) -> tuple[str, int | None]:
    try:
        raw = popen.communicate(timeout=max(0.1, deadline - time.monotonic()))[0]
    except subprocess.TimeoutExpired:
        popen.kill()
        raw = popen.communicate()[0]
        return raw.decode("utf-8", "replace"), None
    return raw.decode("utf-8", "replace"), popen.returncode


def _by_faulthandler(
    processes: Mapping[str, int], folders: Mapping[str, str], deadline: float
) -> dict[str, str]:
    """Send SIGUSR2 to the processes that handle it; return name -> the stacks that they wrote."""
    asked = {name: pid for name, pid in processes.items() if _handles(pid, signal.SIGUSR2)}
    paths = {name: os.path.join(folders[name], FAULTHANDLER_FILE) for name in asked}
    before = {name: _size(path) for name, path in paths.items()}
    asked = {name: pid for name, pid in asked.items() if send(pid, signal.SIGUSR2)}
    found: dict[str, str] = {}
    until = min(deadline, time.monotonic() + _HANDLER_S)
    last: dict[str, int] = {}
    while len(found) < len(asked) and time.monotonic() < until:
        time.sleep(0.1)
        for name, pid in asked.items():
            size = _size(paths[name])
            if name in found or size <= before[name]:
                continue
            if last.get(name) == size:  # it no longer grows
                text = read_text(paths[name]) or ""
                found[name] = "faulthandler (signal SIGUSR2), pid {}\n{}".format(pid, text)
            last[name] = size
    return found


def _handles(pid: int, number: int) -> bool:
    """Return whether a process handles the signal, which otherwise ends it."""
    for line in (read_text("/proc/{}/status".format(pid)) or "").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _by_proc(pid: int) -> str:
    """Return state and system call of each thread, from /proc."""
    if not is_running(pid):
        return "/proc, pid {}: the process has ended meanwhile".format(pid)
    parts = ["/proc (no py-spy, no faulthandler), pid {}".format(pid)]
    status = read_text("/proc/{}/status".format(pid)) or ""
    wanted = ("Name:", "State:", "Threads:", "VmRSS:", "VmSwap:", "SigBlk:", "SigCgt:")
    parts += [line for line in status.splitlines() if line.startswith(wanted)]
    for task in _tasks(pid):
        folder = "/proc/{}/task/{}".format(pid, task)
        wchan = read_text(os.path.join(folder, "wchan"))
        call = read_text(os.path.join(folder, "syscall"))
        parts.append("thread {}: waits in {}, system call {}".format(task, wchan, call))
        stack = read_text(os.path.join(folder, "stack"))
        if stack:
            parts += ["  " + line for line in stack.splitlines()[:20]]
    return "\n".join(parts)


def _tasks(pid: int) -> Sequence[str]:
    try:
        return sorted(os.listdir("/proc/{}/task".format(pid)), key=int)[:64]
    except OSError:
        return ()


def _cut(text: str) -> str:
    """Return the text, cut to `MAX_BYTES`."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= MAX_BYTES:
        return raw.decode("utf-8")
    return raw[: MAX_BYTES - 20].decode("utf-8", "ignore") + "\n... (cut)"
