"""The agent's life on a node: daemon, lock, repeats one after another, end."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from nodeside.cgroups import clear_left_behind
from nodeside.control import Control
from nodeside.files import (
    AgentError,
    boot_id,
    explain,
    probe_writable,
    read_json,
    write_json,
)
from nodeside.fingerprint import fingerprint
from nodeside.gpuneighbours import resolve
from nodeside.job import NodeJob
from nodeside.locks import JobLock, holder_document, lock_file, lock_path
from nodeside.neighbours import Meter
from nodeside.processes import AGENT_MARK, AGENT_NODE, become_subreaper, end_marked, reap
from nodeside.reasons import (
    AGENT_DIED,
    AGENT_SIGNALLED,
    LEASE_EXPIRED,
    NODE_REBOOTED,
    STOPPED,
    Reason,
    reason,
)
from nodeside.repeats import Repeat

TICK_S = 0.25
"""The agent shares a measured core: a tick costs well under a millisecond of it."""

EXIT_CANNOT_WRITE = 4


def start(folder: str, node: str, agent_file: str) -> dict[str, Any]:
    """Leave an agent behind that outlives this call and its SSH channel.

    Returns:
        {"pid", "started"}; started is False where one already serves this job directory.
    """
    code = os.path.dirname(os.path.abspath(agent_file))
    job = NodeJob(folder, node, code)
    probe_writable(os.path.join(job.folder, "control"))
    lock = lock_file(os.path.join(job.folder, "agent.lock"))
    if lock is None:
        known = read_json(os.path.join(job.folder, "agent.json")) or {}
        return {"pid": known.get("pid"), "started": False}
    receive, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                os.write(report, str(os.getpid()).encode())
                _become_agent(job, agent_file, lock)
        except OSError as error:
            os.write(2, "nightbench agent: cannot start: {}\n".format(error).encode())
        finally:
            os._exit(0)
    os.close(report)
    os.waitpid(child, 0)
    pid = int(os.read(receive, 32).decode() or "0")
    return {"pid": pid, "started": True}


def _become_agent(job: NodeJob, agent_file: str, lock: int) -> None:
    """Replace this process, so that the agent's mark stands in its own /proc environment."""
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDONLY)
    out = os.open(
        os.path.join(job.folder, "agent.out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
    )
    os.dup2(nothing, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.set_inheritable(lock, True)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    environment = dict(os.environ)
    environment.update({AGENT_MARK: job.job_id, AGENT_NODE: job.node})
    argv = [sys.executable, os.path.abspath(agent_file), "serve", job.folder]
    argv += ["--node", job.node, "--lock-fd", str(lock)]
    os.closerange(lock + 1, 4096)
    for descriptor in range(3, lock):
        try:
            os.close(descriptor)
        except OSError:
            continue  # it was not open
    os.execve(sys.executable, argv, environment)


def serve(folder: str, node: str, agent_file: str, lock_fd: int) -> int:
    """What the daemon does until its end; the exit code."""
    os.set_inheritable(lock_fd, False)
    job = NodeJob(folder, node, os.path.dirname(os.path.abspath(agent_file)))
    agent = Agent(job)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, agent.on_signal)
    try:
        return agent.run()
    except OSError as error:
        # The disk is full or gone. Ranks must not go on unseen, and no result is pretended.
        wrong = explain(error, job.folder)
        end_marked(job.job_id, job.node)
        job.log.write("cannot_write", reason=str(wrong))
        print("nightbench agent: {}".format(wrong), file=sys.stderr, flush=True)
        return EXIT_CANNOT_WRITE
    except AgentError as error:
        job.log.write("end", reason=str(error))
        print("nightbench agent: {}".format(error), file=sys.stderr, flush=True)
        agent.note_end(error.reasons(job.node))
        return 1


class Agent:
    """Serves one job directory until stop, an expired lease, or a signal."""

    def __init__(self, job: NodeJob) -> None:
        self.job = job
        self.control = Control(os.path.join(job.folder, "control"), job.log)
        self._repeat: Repeat | None = None
        self._lock: JobLock | None = None
        self._meter: Meter | None = None
        self._written: dict[str, Any] = {}
        self._boot_id = boot_id()
        before = read_json(os.path.join(job.folder, "agent.json")) or {}
        self._rebooted = before.get("boot_id") not in (None, self._boot_id)
        self._signal: int | None = None
        self._expired = False

    def run(self) -> int:
        """Take the lock, serve repeats, leave the node clean."""
        self.job.log.write("start", pid=os.getpid(), node=self.job.node, job=self.job.job_id)
        become_subreaper()
        left = clear_left_behind()
        if left:
            self.job.log.write("kill", pids=left, reason="left in its cgroup by an agent that died")
        try:
            why = self._wait_for_lock() or self._serve()
            if self._repeat is not None:
                self._repeat.abandon("failed" if self._expired else "aborted", why)
            left = end_marked(self.job.job_id, self.job.node)[0]
            if left:
                self.job.log.write("kill", pids=left, reasons=why)
            self.job.log.write("end", reasons=why)
            self.note_end(why)
        finally:
            if self._lock is not None:
                self._lock.close()
        return 0

    def note_end(self, reasons: list[Reason]) -> None:
        """agent.json says that the agent has gone, and why."""
        self._write("ended", reasons=reasons)

    def on_signal(self, number: int, _frame: Any) -> None:
        """Signal handler: the next tick ends the agent; a result being written is completed."""
        self._signal = number

    def _wait_for_lock(self) -> list[Reason]:
        """Empty with the lock; otherwise why the agent ends without it."""
        path = lock_path(self.job.document["lock_dir"], os.environ)
        self._lock = JobLock(path, self._devices_to_lock())
        mine = holder_document(self.job.job_id, os.environ)
        shown: Any = self
        while not self._lock.acquire(mine):
            holder = self._lock.holder()
            if holder != shown:
                shown = holder
                self.job.log.write("lock_wait", holder=holder)
                self._write("waiting", holder=holder)
            why = self._why_end()
            if why:
                return why
            time.sleep(2 * TICK_S)
        self.job.log.write("lock", path=path)
        return []

    def _devices_to_lock(self) -> list[str]:
        """Names of the devices that are locked one by one; empty: the node as a whole."""
        if not self.job.locks_devices:
            return []
        if self.job.devices:
            return ["gpu-" + device for device in resolve(self.job.devices)]
        return ["cpu-{}".format(number) for number in self.job.cpus]

    def _why_end(self) -> list[Reason]:
        """Look at the control folder; why the agent has to end, empty where it has not."""
        if self._signal is not None:
            name = signal.Signals(self._signal).name
            return [reason(AGENT_SIGNALLED, self.job.node, observed=name)]
        self.control.look()
        stop = self.control.command("stop")
        if stop is not None:
            self.job.log.write("stop")
            return list(stop.get("reasons") or [reason(STOPPED, self.job.node)])
        lease_s = self.job.limits["lease_s"]
        if self.control.unrenewed_s() > lease_s:
            self._expired = True
            self.job.log.write("lease_expired", lease_s=lease_s)
            limit = "{:g} s".format(lease_s)
            return [reason(LEASE_EXPIRED, self.job.node, observed=limit)]
        return []

    def _serve(self) -> list[Reason]:
        """Repeats one after another; why it ended."""
        self._end_what_was_left()
        self._meter = Meter(self.job.cpus, self.job.job_id, self.job.neighbours["cpu_share"])
        write_json(
            os.path.join(self.job.folder, "fingerprint.json"),
            fingerprint(self.job.code, self.job.python, self.job.document),
        )
        while True:
            why = self._why_end()
            if why:
                return why
            if self._repeat is None or self._repeat.ended:
                reap(())  # what a repeat left behind and the kernel gave to us
                self._repeat = self._next()
            self._meter.tick(time.monotonic())
            if self._repeat is None:
                self._write("idle")
            else:
                self._repeat.tick(self.control)
                busy = self._repeat.state in ("running", "draining")
                state = "running" if busy else self._repeat.state
                if self._repeat.ended:
                    state = "idle"
                waiting = self._repeat.reasons if state == "preparing" else []
                self._write(state, repeat=self._repeat.number, reasons=waiting)
            time.sleep(TICK_S)

    def _next(self) -> Repeat | None:
        """The first repeat that was asked for and has not ended."""
        for number in self.control.prepared():
            result = os.path.join(self.job.repeat_folder(number), "result.json")
            if not os.path.exists(result):
                self._write("preparing", repeat=number)
                repeat = Repeat(self.job, number, self._meter)
                repeat.prepare()
                return repeat
        return None

    def _end_what_was_left(self) -> None:
        """An agent before this one died within a repeat: clean up and say so, launch nothing."""
        left = end_marked(self.job.job_id, self.job.node)[0]
        if left:
            self.job.log.write("kill", pids=left, reason="left by an agent that died")
        why = reason(NODE_REBOOTED if self._rebooted else AGENT_DIED, self.job.node)
        folder = os.path.join(self.job.folder, "repeats")
        os.makedirs(folder, exist_ok=True)
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            launched = os.path.exists(os.path.join(path, "launched"))
            if launched and not os.path.exists(os.path.join(path, "result.json")):
                Repeat(self.job, int(name)).abandon("failed", [why])

    def _write(self, state: str, **details: Any) -> None:
        """agent.json, where something of it has changed."""
        document = {
            "schema": "nightbench.agent/1",
            "pid": os.getpid(),
            "state": state,
            "repeat": details.get("repeat"),
            "epoch": self.control.epoch,
            "holder": details.get("holder"),
            "reasons": details.get("reasons") or [],
            "boot_id": self._boot_id,
        }
        if document != self._written:
            write_json(
                os.path.join(self.job.folder, "agent.json"),
                dict(document, t_s=round(time.monotonic(), 3)),
            )
            self._written = document
