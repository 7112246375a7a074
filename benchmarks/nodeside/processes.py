"""Starts rank processes in own sessions with marks, and ends them by group, mark and descent.

A mark is an environment variable that names the job; descendants inherit it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import time
from typing import Any, Callable, Iterable, Mapping, Sequence

from nodeside.files import AgentError

JOB_MARK = "NIGHTBENCH_JOB"
NODE_MARK = "NIGHTBENCH_NODE"
AGENT_MARK = "NIGHTBENCH_AGENT"
AGENT_NODE = "NIGHTBENCH_AGENT_NODE"

_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_OOM_SCORE = "500"
"""`oom_score_adj` of ranks: they are killed before the agent and sshd, which must clean up."""
END_S = 10.0
"""Maximum time after SIGKILL until processes have ended."""
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
        """Whether its end has not been reaped yet."""
        return self.exit_code is None and self.signal is None

    def note_end(self, status: int) -> None:
        """Record a wait status."""
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        else:
            self.exit_code = os.WEXITSTATUS(status)
        # Popen must not wait for this pid again: the number may be another process's soon.
        self._popen.returncode = self.returncode

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative signal number; None while it runs."""
        return -self.signal if self.signal is not None else self.exit_code

    def describe_end(self) -> str:
        """Return how it ended: `code 3`, `SIGKILL`."""
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
    """Start one process in its own session; the kernel kills it when the agent dies.

    Args:
        name: of the process, for messages.
        argv: its command.
        env: its whole environment.
        folder: its working directory; its output goes to out.log there.
        cpus: the cores that it may use; all when empty.
        procs: the file cgroup.procs of its cgroup.

    Raises:
        AgentError: it cannot be started.
    """
    agent = os.getpid()

    def in_child() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != agent:
            os._exit(127)  # the agent died between fork and prctl
        # A tool that the agent starts may look at the stack, also if Yama restricts ptrace.
        _LIBC.prctl(_PR_SET_PTRACER, agent, 0, 0, 0)
        # Where the kernel refuses, session and mark must identify the process.
        write_kernel_file("/proc/self/oom_score_adj", _OOM_SCORE)
        if procs:
            write_kernel_file(procs, "0")
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
                "check whether the environment of the framework is complete on the node",
            ) from error
    return Launched(name, popen)


def write_kernel_file(path: str, text: str) -> bool:
    """Write to a kernel file; return False if it does not exist or refuses the text."""
    try:
        with open(path, "w") as handle:
            handle.write(text)
    except OSError:
        return False
    return True


def reap(launched: Iterable[Launched]) -> None:
    """Reap every child that has ended; note the ends of those among `launched`."""
    by_pid = {item.pid: item for item in launched}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        item = by_pid.get(pid)
        if item is not None:
            item.note_end(status)


def environ_of(pid: int) -> dict[str, str]:
    """Return the environment of a process at its start; empty if it may not be read."""
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


def is_marked(pid: int, job_id: str | None) -> bool:
    """Return whether a process has the mark of a job or of its agent; None: of any job."""
    environment = environ_of(pid)
    marks = {environment.get(JOB_MARK), environment.get(AGENT_MARK)} - {None}
    return bool(marks if job_id is None else job_id in marks)


def stat_of(pid: int) -> list[bytes]:
    """Return the words of /proc/PID/stat from the state on; none if the process is gone."""
    try:
        with open("/proc/{}/stat".format(pid), "rb", buffering=0) as handle:
            return handle.read().rpartition(b")")[2].split()
    except OSError:
        return []


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    return stat_of(pid)[:1] not in ([], [b"Z"], [b"X"])


def command_of(pid: int) -> list[str]:
    """Return the command line of a process; empty if it is gone, and for kernel threads."""
    try:
        with open("/proc/{}/cmdline".format(pid), "rb") as handle:
            return handle.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def pids() -> list[int]:
    """Return all process ids of the host."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def marked(job_id: str, node: str | None) -> list[int]:
    """Return the running processes with the job's mark and, unless None, the node's."""
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
    """Return the running descendants of this process, without an agent and its tools.

    They include descendants of ranks that have changed their environment, session or group: the
    agent adopts them when their parents end.
    """
    if not _adopting:
        return []
    parents: dict[int, list[int]] = {}
    for pid in pids():
        words = stat_of(pid)
        if words and words[0] not in (b"Z", b"X"):
            parents.setdefault(int(words[1]), []).append(pid)
    found, left = [], [os.getpid()]
    while left:
        for pid in parents.get(left.pop(), ()):
            if AGENT_MARK not in environ_of(pid):
                found.append(pid)
                left.append(pid)
    return found


def send(pid: int, number: int, group: bool = False) -> bool:
    """Send a signal; return False if no process received it."""
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
    """Send SIGTERM to the groups, wait, send SIGKILL; return the pids that were running."""
    reap(launched)
    alive = [item for item in launched if item.running]
    for item in alive:
        send(item.pid, signal.SIGTERM, group=True)
    _wait_for_ends(launched, alive, term_s)
    for item in alive:
        if item.running:
            send(item.pid, signal.SIGKILL, group=True)
    _wait_for_ends(launched, alive, END_S)
    return [item.pid for item in alive]


def end_all(
    left: Callable[[], Sequence[int]],
    end: Callable[[Sequence[int]], Iterable[int]],
    launched: Iterable[Launched] = (),
) -> tuple[list[int], list[int]]:
    """Call `end` on the pids that `left` returns, until it returns none or `END_S` has passed.

    Returns:
        The pids that `end` returned, which a signal reached; and the pids that are left.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + END_S
    running = left()
    while running and time.monotonic() < deadline:
        ended.update(end(running))
        time.sleep(0.05)
        reap(launched)
        running = left()
    reap(launched)
    return sorted(ended), list(running)


def end_marked(
    job_id: str, node: str | None, launched: Sequence[Launched] = ()
) -> tuple[list[int], list[int]]:
    """Send SIGKILL to every process with the mark and every adopted one until none is left.

    Returns:
        The pids that were ended, and those that could not be (blocked in the kernel, or of
        another user).
    """

    def end(running: Sequence[int]) -> list[int]:
        family = set(adopted())
        # Checked again: the pid may have been reused since.
        ours = [p for p in running if p in family or environ_of(p).get(JOB_MARK) == job_id]
        return kill_all(ours)

    return end_all(lambda: sorted({*marked(job_id, node), *adopted()}), end, launched)


def end_adopted() -> list[int]:
    """Send SIGKILL to every adopted process until none is left; return the pids that were ended."""
    return end_all(adopted, kill_all)[0]


def kill_all(running: Iterable[int]) -> list[int]:
    """Send SIGKILL; return the pids that received it."""
    return [pid for pid in running if send(pid, signal.SIGKILL)]


def _wait_for_ends(
    launched: Sequence[Launched], awaited: Sequence[Launched], timeout_s: float
) -> None:
    deadline = time.monotonic() + timeout_s
    while any(item.running for item in awaited) and time.monotonic() < deadline:
        time.sleep(0.05)
        reap(launched)
