"""One repeat on one node: reserve ports, launch once, watch, end, write result.json."""

from __future__ import annotations

import os
import time
from typing import Any

from nodeside.commands import CommandFolder
from nodeside.disturbance import RepeatObserver
from nodeside.files import AgentError, boot_id, make_once, utc_now, write_json
from nodeside.job import NodeJob
from nodeside.launch_gate import LaunchGate
from nodeside.local_gang import LocalGang
from nodeside.neighbours import CpuMeter
from nodeside.ports import PortReservation
from nodeside.reasons import GO_WITHOUT_PORT, NO_GO, PROCESSES_STUCK, STOPPED, Reason, reason
from nodeside.telemetry import INTERVAL_S

STATE_INTERVAL_S = 1.0
RESULT_SCHEMA = "nightbench.result/1"


class NodeRepeat:
    """States: preparing -> ready -> running -> (draining) -> done, failed or aborted.

    `tick` advances it; it has ended once result.json is written.

    Args:
        job: the job on this node.
        number: 1-based.
        meter: measures foreign work on the job's cores for as long as the agent lives.
    """

    def __init__(self, job: NodeJob, number: int, meter: CpuMeter) -> None:
        self.job = job
        self.number = number
        self.folder = job.repeat_folder(number)
        self.state = "preparing"
        self.reasons: list[Reason] = []
        self._meter = meter
        self._gate: LaunchGate | None = None
        self._reservation: PortReservation | None = None
        self._ports: dict[str, int] = {}
        self._gang = LocalGang(job, number, self.folder)
        self._observer: RepeatObserver | None = None
        self._ready_s = time.monotonic()
        self._state_due_s = 0.0
        self._finishing = False

    # --- before the launch -------------------------------------------------------------

    def prepare(self) -> None:
        """Wait for foreign work to end and reserve ports; a node that cannot run the job fails."""
        os.makedirs(self.folder, exist_ok=True)
        self._note("prepare")
        try:
            self.job.check_cpus()
        except AgentError as error:
            self._end("failed", error.reasons(self.job.node))
            return
        self._gate = LaunchGate(self.job, self._meter)
        self._try_get_ready()

    def _try_get_ready(self) -> None:
        """Become ready once the launch gate is open and the ports are reserved."""
        low, high = self.job.here["port_range"]
        try:
            if self._gate is not None and not self._gate.tick():
                if self.reasons != self._gate.waiting:
                    self.reasons = self._gate.waiting
                    self._write_state()
                return
            self._reservation = PortReservation(
                self.job.port_names, self.job.here["data_address"], low, high
            )
        except AgentError as error:
            self._end("failed", error.reasons(self.job.node))
            return
        self._gate, self.reasons = None, []
        self._ports = dict(self._reservation.ports)
        self.state, self._ready_s = "ready", time.monotonic()
        self._write_state()

    def tick(self, commands: CommandFolder) -> bool:
        """Act on commands and on processes that ended; return True once the repeat has ended."""
        if self.ended:
            return True
        self._gang.reap()
        abort = commands.command("abort", self.number)
        if abort is not None:
            # The command did not cause the end of a process that died before it arrived.
            failure = self._gang.find_failure(of_ended=True)
            why = abort.get("reasons") or [reason(STOPPED, self.job.node)]
            self._end("failed" if failure else "aborted", failure or why)
        elif self.state == "preparing":
            self._try_get_ready()
        elif self.state == "ready":
            self._wait_for_go(commands)
        else:
            self._watch(commands)
        if not self.ended and time.monotonic() >= self._state_due_s:
            self._write_state()
        return self.ended

    @property
    def ended(self) -> bool:
        """Whether result.json is written."""
        return self.state in ("done", "failed", "aborted")

    def abandon(self, status: str, reasons: list[Reason]) -> None:
        """End the repeat from outside: stop, expired lease, or the end of the agent."""
        if not self.ended:
            self._end(status, reasons)

    def _wait_for_go(self, commands: CommandFolder) -> None:
        go = commands.command("go", self.number)
        if go is None:
            limit_s = self.job.limits["ready_s"]
            if self.job.neighbours["action"] == "wait":
                limit_s += self.job.neighbours["wait_s"]  # another node may wait for so long
            if time.monotonic() - self._ready_s > limit_s:
                limit = "{:g} s".format(limit_s)
                self._end("failed", [reason(NO_GO, self.job.node, expected=limit)])
            return
        ports = go.get("ports")
        absent = [
            entry["name"]
            for entry in self.job.document["ports"]
            if not isinstance(ports, dict) or entry["name"] not in ports
        ]
        if absent:
            without = reason(GO_WITHOUT_PORT, self.job.node, observed=", ".join(absent))
            self._end("failed", [without])
            return
        try:
            self._launch({name: int(port) for name, port in dict(ports or {}).items()}, go)
        except AgentError as error:
            self._end("failed", error.reasons(self.job.node))

    # --- the processes -----------------------------------------------------------------

    def _launch(self, ports: dict[str, int], go: dict[str, Any]) -> None:
        write_json(os.path.join(self.folder, "go.json"), {"epoch": go["epoch"], "ports": ports})
        commands = self.job.commands(ports)
        if not make_once(os.path.join(self.folder, "launched")):
            raise AgentError("this repeat was launched before and is never launched twice")
        self._ports = ports
        if self._reservation is not None:
            self._reservation.release()
        self._observer = RepeatObserver(self.job, self._meter)
        self.state = "running"
        self._gang.start(commands)
        self._observer.watch(self._gang.pids())
        self._write_state()

    def _watch(self, commands: CommandFolder) -> None:
        failure = self._gang.find_failure()
        if self._observer is not None:
            self._observer.tick(self._gang.trainer_phases())
        self._finishing = self._finishing or commands.command("finish", self.number) is not None
        if commands.command("drain", self.number) is not None and self.state == "running":
            self._note("drain")
            open(os.path.join(self.folder, "drain"), "w").close()
            self.state = "draining"
        if failure:
            self._end("failed", failure)
            return
        if any(item.running for item in self._gang.measured()):
            return
        if any(item.running for item in self._gang.serving()):
            if not self._finishing:
                return
            self._gang.finish()
        self._end("done", [])

    # --- the end -----------------------------------------------------------------------

    def _end(self, status: str, reasons: list[Reason]) -> None:
        """End all processes, then write result.json, which ends the repeat."""
        ended_s = time.monotonic()
        if status != "done" and self.state in ("running", "draining"):
            # Written before the processes are ended, so that other nodes end theirs meanwhile.
            self.reasons = reasons
            self._write_state()
        if self._reservation is not None:
            self._reservation.release()
        telemetry: dict[str, Any] = {"interval_s": INTERVAL_S, "samples": []}
        if self._observer is not None:
            telemetry = self._observer.stop()
        stuck = self._gang.end(well=status == "done")
        if self._gang.killed:
            self._note("kill", pids=self._gang.killed, reasons=reasons)
        if stuck:
            status = "failed" if status == "done" else status
            pids = ", ".join(map(str, stuck))
            reasons = [*reasons, reason(PROCESSES_STUCK, self.job.node, observed=pids)]
        processes = self._gang.results()
        disturbed = power = None
        if self._observer is not None and status == "done":
            trainers = [p["summary"] for p in processes if p["measured"]]
            disturbed = self._observer.disturbed(trainers)
            power = self._observer.power(trainers)
        self.state, self.reasons = status, reasons
        self._write_state()
        write_json(
            os.path.join(self.folder, "result.json"),
            {
                "schema": RESULT_SCHEMA,
                "job_id": self.job.job_id,
                "repeat": self.number,
                "node": self.job.node,
                "status": "ok" if status == "done" else status,
                "reasons": reasons,
                "log_tail": None if status == "done" else self._gang.log_tail(),
                "started_s": self._gang.started_s,
                "ended_s": ended_s,
                "processes": processes,
                "telemetry": telemetry,
                "killed": self._gang.killed,
                "ports": self._ports,
                "boot_id": boot_id(),
                "disturbed": disturbed,
                "power": power,
            },
            durable=True,
        )
        self._note("result", status=status, reasons=reasons)

    def _note(self, event: str, **details: Any) -> None:
        self.job.log.write(event, repeat=self.number, **details)

    def _write_state(self) -> None:
        now = time.monotonic()
        self._state_due_s = now + STATE_INTERVAL_S
        write_json(
            os.path.join(self.folder, "state.json"),
            {
                "state": self.state,
                "ports": self._ports,
                "processes": self._gang.states(),
                "reasons": self.reasons,
                "t_s": round(now, 3),
                "at": utc_now(),
            },
        )
