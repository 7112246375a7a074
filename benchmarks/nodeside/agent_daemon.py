"""The agent: a daemon that locks its node, runs the repeats of one job and cleans up."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from nodeside import containers
from nodeside.cgroups import clear_left_behind
from nodeside.commands import CommandFolder
from nodeside.files import (
    AgentError,
    boot_id,
    explain,
    read_json,
    write_json,
)
from nodeside.fingerprint import fingerprint
from nodeside.gpus import resolve
from nodeside.job import NodeJob
from nodeside.links import FULL, limit_link
from nodeside.locks import JobLock, holder_document, lock_path
from nodeside.neighbours import CpuMeter
from nodeside.node_repeat import NodeRepeat
from nodeside.processes import (
    become_subreaper,
    end_adopted,
    end_marked,
    reap,
)
from nodeside.reasons import (
    AGENT_DIED,
    AGENT_SIGNALLED,
    LEASE_EXPIRED,
    NODE_REBOOTED,
    STOPPED,
    Reason,
    reason,
)

TICK_S = 0.25
"""Interval of the agent's loop; one pass takes far less than 1 ms of a measured core."""

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""Signals that end an agent; SIGUSR1 is a batch system's warning of time limit or preemption."""

EXIT_NOT_STOPPED = 3
"""The agent ended without a request: the other tasks of a batch job end as well."""

EXIT_CANNOT_WRITE = 4


def _on_ending_signals(handler: Any) -> None:
    """Install a handler of ending signals; those that were blocked until now arrive."""
    for number in ENDING_SIGNALS:
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def reap_after(folder: str, node: str, agent_file: str, pid: int, forward: bool = False) -> int:
    """Wait for the agent to end, then end the processes that it left; return its exit code.

    This process is the agent's parent and a subreaper. If the agent is killed, it adopts processes
    that no mark, session or cgroup would find: daemons that have emptied their environment.
    """
    job = NodeJob(folder, node, os.path.dirname(os.path.abspath(agent_file)))
    # The agent obeys the signal; wait until it ends. A batch system may send it only here.
    _on_ending_signals((lambda n, _: os.kill(pid, n)) if forward else signal.SIG_IGN)
    become_subreaper()
    status = os.waitpid(pid, 0)[1]
    _on_ending_signals(signal.SIG_IGN)
    left = end_adopted()
    if containers.remove_of(job.python, job.job_id, job.node):
        left += end_marked(job.job_id, job.node)[0]
    if left:
        job.log.write("kill", pids=left, reason="left by an agent that died")
    if job.document["case"]["link_bandwidth"] != FULL:
        # Harmless if done twice; an agent that was killed has not done it.
        limit_link(job, FULL)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else EXIT_NOT_STOPPED


def serve(folder: str, node: str, agent_file: str, lock_fd: int) -> int:
    """Run the agent until its end; return the exit code."""
    os.set_inheritable(lock_fd, False)
    job = NodeJob(folder, node, os.path.dirname(os.path.abspath(agent_file)))
    agent = Agent(job)
    _on_ending_signals(agent.on_signal)
    try:
        return agent.run()
    except OSError as error:
        # The disk is full or lost: end the ranks, which cannot be watched, and write no result.
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
    """Serves one job directory until a stop, a release, a signal, or the end of its lease."""

    def __init__(self, job: NodeJob) -> None:
        self.job = job
        self.commands = CommandFolder(os.path.join(job.folder, "control"), job.log)
        self._repeat: NodeRepeat | None = None
        self._lock: JobLock | None = None
        self._written: dict[str, Any] = {}
        self._boot_id = boot_id()
        before = read_json(os.path.join(job.folder, "agent.json")) or {}
        self._rebooted = before.get("boot_id") not in (None, self._boot_id)
        self._signal: int | None = None
        self._expired = False
        self._stopped = False

    def run(self) -> int:
        """Take the lock, run repeats, end all processes; return the exit code."""
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
        return 0 if self._stopped else EXIT_NOT_STOPPED

    def note_end(self, reasons: list[Reason]) -> None:
        """Write into agent.json that the agent has ended, and why."""
        self._write("ended", reasons=reasons)

    def on_signal(self, number: int, _frame: Any) -> None:
        """Signal handler: the next pass of the loop ends the agent."""
        self._signal = number

    def _wait_for_lock(self) -> list[Reason]:
        """Wait for the node's lock; return why the agent must end without it, or an empty list."""
        path = lock_path(self.job.document["lock_dir"], os.environ)
        self._lock = JobLock(path, self._devices_to_lock())
        mine = holder_document(self.job.job_id, os.environ)
        shown: Any = self  # a value that equals no holder
        while not self._lock.acquire(mine):
            holder = self._lock.holder()
            if holder != shown:
                shown = holder
                self.job.log.write("lock_wait", holder=holder)
                self._write("waiting", holder=holder)
            why = self._end_reasons()
            if why:
                return why
            time.sleep(2 * TICK_S)
        self.job.log.write("lock", path=path)
        return []

    def _devices_to_lock(self) -> list[str]:
        """Return the names of the devices to lock; empty to lock the whole node."""
        if not self.job.locks_devices:
            return []
        if self.job.devices:
            return ["gpu-" + device for device in resolve(self.job.devices)]
        return ["cpu-{}".format(number) for number in self.job.cpus]

    def _end_reasons(self) -> list[Reason]:
        """Read new commands; return why the agent must end, or an empty list."""
        if self._signal is not None:
            name = signal.Signals(self._signal).name
            return [reason(AGENT_SIGNALLED, self.job.node, observed=name)]
        self.commands.read_new()
        # `stop` ends all agents of the job; `release` ends this agent, and its gang starts another.
        release = self.commands.command("release", os.getpid())
        stop = self.commands.command("stop") or release
        if stop is not None:
            self._stopped = True
            self.job.log.write("stop" if stop is not release else "release")
            return list(stop.get("reasons") or [reason(STOPPED, self.job.node)])
        lease_s = self.job.limits["lease_s"]
        if self.commands.lease_age_s() > lease_s:
            self._expired = True
            self.job.log.write("lease_expired", lease_s=lease_s)
            limit = "{:g} s".format(lease_s)
            return [reason(LEASE_EXPIRED, self.job.node, observed=limit)]
        return []

    def _serve(self) -> list[Reason]:
        """Run repeats one after another; return why the agent must end."""
        meter = CpuMeter(self.job.cpus, self.job.job_id, self.job.neighbours["cpu_share"])
        self._end_interrupted_repeats(meter)
        limit_link(self.job)
        found = fingerprint(self.job.code, self.job.python, self.job.document)
        write_json(os.path.join(self.job.folder, "fingerprint.json"), found)
        self.job.bind(found)
        self.job.keep_compiled(found)
        while True:
            why = self._end_reasons()
            if why:
                return why
            if self._repeat is None or self._repeat.ended:
                reap(())  # orphans of the last repeat, which this process has adopted
                self._repeat = self._next(meter)
            meter.tick(time.monotonic())
            if self._repeat is None:
                self._write("idle")
            else:
                self._repeat.tick(self.commands)
                busy = self._repeat.state in ("running", "draining")
                state = "running" if busy else self._repeat.state
                if self._repeat.ended:
                    state = "idle"
                waiting = self._repeat.reasons if state == "preparing" else []
                self._write(state, repeat=self._repeat.number, reasons=waiting)
            time.sleep(TICK_S)

    def _next(self, meter: CpuMeter) -> NodeRepeat | None:
        """Prepare and return the first requested repeat without a result; None if there is none."""
        for number in self.commands.prepared():
            result = os.path.join(self.job.repeat_folder(number), "result.json")
            if not os.path.exists(result):
                self._write("preparing", repeat=number)
                repeat = NodeRepeat(self.job, number, meter)
                repeat.prepare()
                return repeat
        return None

    def _end_interrupted_repeats(self, meter: CpuMeter) -> None:
        """End processes that a dead agent left, and record its repeats as failed."""
        left = end_marked(self.job.job_id, self.job.node)[0]
        containers.remove_of(self.job.python, self.job.job_id, self.job.node)
        if left:
            self.job.log.write("kill", pids=left, reason="left by an agent that died")
        why = reason(NODE_REBOOTED if self._rebooted else AGENT_DIED, self.job.node)
        folder = os.path.join(self.job.folder, "repeats")
        os.makedirs(folder, exist_ok=True)
        for name in sorted(filter(str.isdigit, os.listdir(folder))):
            path = os.path.join(folder, name)
            launched = os.path.exists(os.path.join(path, "launched"))
            if launched and not os.path.exists(os.path.join(path, "result.json")):
                NodeRepeat(self.job, int(name), meter).abandon("failed", [why])

    def _write(self, state: str, **details: Any) -> None:
        """Write agent.json if it has changed."""
        document = {
            "schema": "nightbench.agent/1",
            "pid": os.getpid(),
            "state": state,
            "repeat": details.get("repeat"),
            "epoch": self.commands.epoch,
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
