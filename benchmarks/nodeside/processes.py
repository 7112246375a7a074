"""Rank processes: started with marks in sessions of their own, ended by group and by mark."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import time
from typing import Any, Iterable, Mapping, Sequence

from nodeside.files import AgentError

JOB_MARK = "NIGHTBENCH_JOB"
NODE_MARK = "NIGHTBENCH_NODE"
AGENT_MARK = "NIGHTBENCH_AGENT"
AGENT_NODE = "NIGHTBENCH_AGENT_NODE"

_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_OOM_SCORE = b"500"
"""Where memory runs out the ranks go first: without the agent and sshd nobody cleans up."""
_adopting = False


def become_subreaper() -> None:
    """Adopt orphaned grandchildren, so that they can be found and reaped here."""
    global _adopting
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    _adopting = True


class Launched:
    """One started process and how it ended."""

    def __init__(self, name: str, popen: Any) -> None:
        self.name = name
        self.pid: int = popen.pid
        self._popen = popen
        self.exit_code: int | None = None
        self.signal: int | None = None

    @property
    def running(self) -> bool:
        """True until its end was reaped."""
        return self.exit_code is None and self.signal is None

    def note_end(self, status: int) -> None:
        """Keep a wait status."""
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        else:
            self.exit_code = os.WEXITSTATUS(status)
        # Popen must not wait for this pid again: the number may be another process's soon.
        self._popen.returncode = self.returncode

    @property
    def returncode(self) -> int | None:
        """The exit code; the negative signal number where a signal ended it."""
        return -self.signal if self.signal is not None else self.exit_code

    def describe_end(self) -> str:
        """How it ended: `code 3`, `SIGKILL`."""
        if self.signal is not None:
            try:
                return signal.Signals(self.signal).name
            except ValueError:
                return "signal {}".format(self.signal)
        return "code {}".format(self.exit_code)


def launch(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: str,
    cpus: Sequence[int] = (),
    procs: str | None = None,
) -> Launched:
    """Start one process in its own session, pinned, bound to the agent's life.

    Its output goes to `folder`/out.log; the folder is its working directory. `procs` is the
    cgroup.procs of its cgroup.
    """
    agent = os.getpid()

    def in_child() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != agent:
            os._exit(127)  # the agent died between fork and prctl
        # A tool that the agent starts may look at the stack, also where Yama restricts ptrace.
        _LIBC.prctl(_PR_SET_PTRACER, agent, 0, 0, 0)
        _put("/proc/self/oom_score_adj", _OOM_SCORE)
        if procs:
            _put(procs, b"0")
        if cpus:
            os.sched_setaffinity(0, cpus)

    with open(os.path.join(folder, "out.log"), "ab") as log:
        try:
            popen = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=dict(env),
                start_new_session=True,
                preexec_fn=in_child,
            )
        except OSError as error:
            raise AgentError(
                "cannot start {}: {}: {}".format(name, argv[0], error.strerror),
                "look whether the environment of the framework is complete on the node",
            ) from error
    return Launched(name, popen)


def _put(path: str, content: bytes) -> None:
    """Write to a file of the kernel; session and mark do without what it refuses."""
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except OSError:
        return
    try:
        os.write(descriptor, content)
    except OSError:
        return
    finally:
        os.close(descriptor)


def reap(launched: Iterable[Launched]) -> list[Launched]:
    """Collect every child that has ended; those of `launched` that did so now."""
    by_pid = {item.pid: item for item in launched}
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        item = by_pid.get(pid)
        if item is not None:
            item.note_end(status)
            ended.append(item)
    return ended


def environ_of(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty where it may not be read."""
    try:
        with open("/proc/{}/environ".format(pid), "rb") as handle:
            raw = handle.read()
    except OSError:
        return {}
    found = {}
    for entry in raw.split(b"\0"):
        key, mark, value = entry.partition(b"=")
        if mark:
            found[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return found


def is_running(pid: int) -> bool:
    """False for pids that are gone or only wait to be reaped."""
    try:
        with open("/proc/{}/stat".format(pid), "rb") as handle:
            return handle.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def pids() -> list[int]:
    """All process ids of the machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def marked(job_id: str, node: str | None) -> list[int]:
    """Running processes that carry the job's mark and, unless None, the node's."""
    found = []
    for pid in pids():
        if pid == os.getpid():
            continue
        environment = environ_of(pid)
        if environment.get(JOB_MARK) != job_id:
            continue
        if node is not None and environment.get(NODE_MARK) != node:
            continue
        if is_running(pid):
            found.append(pid)
    return found


def adopted() -> list[int]:
    """Running descendants of this agent that are none of its own helpers.

    A rank's child that has changed its environment has no mark any more, and one that has left
    session and group is in neither: what the agent has adopted it is still descended from.
    """
    if not _adopting:
        return []
    parents: dict[int, list[int]] = {}
    for pid in pids():
        try:
            with open("/proc/{}/stat".format(pid), "rb") as handle:
                words = handle.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if words[0] not in (b"Z", b"X"):
            parents.setdefault(int(words[1]), []).append(pid)
    found, left = [], [os.getpid()]
    while left:
        for pid in parents.get(left.pop(), ()):
            if AGENT_MARK not in environ_of(pid):
                found.append(pid)
                left.append(pid)
    return found


def send(pid: int, number: int, group: bool = False) -> bool:
    """Send a signal; False where nothing received it."""
    try:
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EPERM):
            return False
        raise
    return True


def end_processes(launched: Sequence[Launched], term_s: float) -> list[int]:
    """SIGTERM to the groups, wait, SIGKILL; the pids that were still running."""
    reap(launched)
    alive = [item for item in launched if item.running]
    for item in alive:
        send(item.pid, signal.SIGTERM, group=True)
    _wait(launched, lambda: not any(item.running for item in alive), term_s)
    for item in alive:
        if item.running:
            send(item.pid, signal.SIGKILL, group=True)
    _wait(launched, lambda: not any(item.running for item in alive), 10.0)
    return [item.pid for item in alive]


def end_marked(
    job_id: str, node: str | None, launched: Sequence[Launched] = (), give_up_s: float = 10.0
) -> tuple[list[int], list[int]]:
    """SIGKILL every process with the mark, and every adopted one, until none is left.

    Returns:
        The pids that were ended, and those that would not go (in the kernel, or another
        user's).
    """
    ended: set[int] = set()
    deadline = time.monotonic() + give_up_s
    left = _left(job_id, node)
    while left and time.monotonic() < deadline:
        family = set(adopted())
        for pid in left:
            # Look again: the number may have become another process since.
            ours = pid in family or environ_of(pid).get(JOB_MARK) == job_id
            if ours and send(pid, signal.SIGKILL):
                ended.add(pid)
        time.sleep(0.05)
        reap(launched)
        left = _left(job_id, node)
    reap(launched)
    return sorted(ended), left


def _left(job_id: str, node: str | None) -> list[int]:
    return sorted(set(marked(job_id, node)) | set(adopted()))


def _wait(launched: Sequence[Launched], ready: Any, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.05)
        reap(launched)
