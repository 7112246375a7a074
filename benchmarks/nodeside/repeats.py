"""One repeat on one node: reserve, launch once, watch, end, and say how it went."""

from __future__ import annotations

import os
import time
from typing import Any

from nodeside.control import Control
from nodeside.files import AgentError, make_once, read_json, tail, utc_now, write_json
from nodeside.job import NodeJob
from nodeside.ports import PortReservation
from nodeside.processes import Launched, end_marked, end_processes, launch, reap
from nodeside.progress import Progress
from nodeside.telemetry import INTERVAL_S, Telemetry

STATE_INTERVAL_S = 1.0
RESULT_SCHEMA = "nightbench.result/1"


class Repeat:
    """State machine: ready -> running -> (draining) -> done, failed or aborted.

    `tick` moves it on and returns True once result.json has been written.
    """

    def __init__(self, job: NodeJob, number: int) -> None:
        self.job = job
        self.number = number
        self.folder = job.repeat_folder(number)
        self.state = "preparing"
        self.reason: str | None = None
        self._reservation: PortReservation | None = None
        self._ports: dict[str, int] = {}
        self._launched: dict[str, Launched] = {}
        self._progress: dict[str, Progress] = {}
        self._telemetry: Telemetry | None = None
        self._ready_s = self._started_s = time.monotonic()
        self._state_due_s = 0.0
        self._finishing = False
        self._failed_process: str | None = None
        self._killed: set[int] = set()
        self._exits: set[str] = set()

    # --- before the go -----------------------------------------------------------------

    def prepare(self) -> None:
        """Reserve this node's ports and say so; a repeat that cannot run ends here."""
        os.makedirs(self.folder, exist_ok=True)
        self._note("prepare")
        try:
            self.job.check_cpus()
            low, high = self.job.here["port_range"]
            self._reservation = PortReservation(
                self.job.port_names, self.job.here["data_address"], low, high
            )
        except AgentError as error:
            self._end("failed", str(error))
            return
        self._ports = dict(self._reservation.ports)
        self.state = "ready"
        self._write_state()

    def tick(self, control: Control) -> bool:
        """Follow commands and processes; True once the repeat has ended."""
        if self.ended:
            return True
        reap(self._launched.values())
        self._note_exits()
        abort = control.command("abort", self.number)
        if abort is not None:
            self._end("aborted", str(abort.get("reason") or "aborted by the controller"))
        elif self.state == "ready":
            self._wait_for_go(control)
        else:
            self._watch(control)
        if not self.ended and time.monotonic() >= self._state_due_s:
            self._write_state()
        return self.ended

    @property
    def ended(self) -> bool:
        """True once result.json lies there."""
        return self.state in ("done", "failed", "aborted")

    def abandon(self, status: str, reason: str) -> None:
        """End it from outside: stop, lease expired, the agent is ended."""
        if not self.ended:
            self._end(status, reason)

    def _wait_for_go(self, control: Control) -> None:
        go = control.command("go", self.number)
        if go is None:
            if time.monotonic() - self._ready_s > self.job.limits["ready_s"]:
                self._end(
                    "failed",
                    "no go within {:g} s after ready".format(self.job.limits["ready_s"]),
                )
            return
        ports = go.get("ports")
        absent = [
            entry["name"]
            for entry in self.job.document["ports"]
            if not isinstance(ports, dict) or entry["name"] not in ports
        ]
        if absent:
            self._end("failed", "the go names no port for {}".format(", ".join(absent)))
            return
        try:
            self._launch({name: int(port) for name, port in dict(ports or {}).items()}, go)
        except AgentError as error:
            self._end("failed", str(error))

    # --- the processes -----------------------------------------------------------------

    def _launch(self, ports: dict[str, int], go: dict[str, Any]) -> None:
        write_json(os.path.join(self.folder, "go.json"), {"epoch": go["epoch"], "ports": ports})
        commands = self.job.commands(ports)
        roles = {entry["name"]: entry for entry in self.job.processes}
        if not make_once(os.path.join(self.folder, "launched")):
            raise AgentError("this repeat was launched before and is never launched twice")
        self._ports = ports
        if self._reservation is not None:
            self._reservation.release()
        self._telemetry = Telemetry(self.job.cpus, self.job.here["devices"])
        self._started_s = time.monotonic()
        self.state = "running"
        for command in commands:
            name = command["name"]
            folder = os.path.join(self.folder, name)
            os.makedirs(folder, exist_ok=True)
            env = self.job.environment(roles[name], command.get("env") or {}, self.number)
            started = launch(name, command["argv"], env, folder, self.job.cpus)
            self._launched[name] = started
            self._progress[name] = Progress(os.path.join(folder, "steps.jsonl"))
            self._note("launch", process=name, pid=started.pid)
        self._write_state()

    def _watch(self, control: Control) -> None:
        if self._telemetry is not None:
            self._telemetry.tick()
        self._finishing = self._finishing or control.command("finish", self.number) is not None
        if control.command("drain", self.number) is not None and self.state == "running":
            self._note("drain")
            open(os.path.join(self.folder, "drain"), "w").close()
            self.state = "draining"
        failure = self._find_failure()
        if failure is not None:
            self._end("failed", failure)
            return
        trainers = self._of_role("trainer")
        pservers = self._of_role("pserver")
        if any(item.running for item in trainers):
            return
        if any(item.running for item in pservers):
            if not self._finishing:
                return
            self._note("finish", processes=[item.name for item in pservers])
            end_processes(pservers, self.job.limits["term_s"])
        self._end("done", None)

    def _of_role(self, role: str) -> list[Launched]:
        return [
            self._launched[entry["name"]] for entry in self.job.processes if entry["role"] == role
        ]

    def _find_failure(self) -> str | None:
        """Why the gang of this node has to end now; None while all is well."""
        roles = {entry["name"]: entry["role"] for entry in self.job.processes}
        limits = self.job.limits
        for name, item in self._launched.items():
            if item.running:
                self._progress[name].look()
                continue
            if item.returncode != 0:
                self._failed_process = name
                why = ": the loss is not finite" if item.exit_code == 3 else ""
                return "{} {}{}".format(name, item.describe_end(), why)
            if roles[name] == "trainer" and self._summary(name) is None:
                self._failed_process = name
                return "{} exited with code 0 but left no rank.json".format(name)
        for name, item in self._launched.items():
            progress = self._progress[name]
            if (
                item.running
                and roles[name] == "trainer"
                and progress.idle_s() > limits["progress_s"]
            ):
                self._failed_process = name
                return "{} made no progress for {:g} s (phase {}, step {})".format(
                    name, limits["progress_s"], progress.phase, progress.step
                )
        if time.monotonic() - self._started_s > limits["repeat_s"]:
            return "the repeat took longer than {:g} s".format(limits["repeat_s"])
        return None

    # --- the end -----------------------------------------------------------------------

    def _end(self, status: str, reason: str | None) -> None:
        """Leave the node clean, then write result.json: the last thing of a repeat."""
        ended_s = time.monotonic()
        if self._reservation is not None:
            self._reservation.release()
        launched = list(self._launched.values())
        self._killed.update(end_processes(launched, self.job.limits["term_s"]))
        by_mark, stuck = end_marked(self.job.job_id, self.job.node, launched)
        self._killed.update(by_mark)
        if self._killed:
            self._note("kill", pids=sorted(self._killed), reason=reason)
        if stuck:
            status = "failed" if status == "done" else status
            reason = "{}processes {} cannot be ended".format(reason + "; " if reason else "", stuck)
        self._note_exits()
        for progress in self._progress.values():
            progress.look()
        telemetry: dict[str, Any] = {"interval_s": INTERVAL_S, "samples": []}
        if self._telemetry is not None:
            telemetry = self._telemetry.close()
        self.state, self.reason = status, reason
        self._write_state()
        write_json(
            os.path.join(self.folder, "result.json"),
            {
                "schema": RESULT_SCHEMA,
                "job_id": self.job.job_id,
                "repeat": self.number,
                "node": self.job.node,
                "status": "ok" if status == "done" else status,
                "reason": reason,
                "log_tail": None if status == "done" else self._log_tail(),
                "started_s": self._started_s,
                "ended_s": ended_s,
                "processes": [self._process_result(entry) for entry in self.job.processes],
                "telemetry": telemetry,
                "killed": sorted(self._killed),
                "ports": self._ports,
            },
            durable=True,
        )
        self._note("result", status=status, reason=reason)

    def _log_tail(self) -> str | None:
        names = [self._failed_process] if self._failed_process else sorted(self._launched)
        parts = []
        for name in names:
            text = tail(os.path.join(self.folder, name, "out.log"))
            if text:
                parts.append("[{} {}]\n{}".format(self.job.node, name, text))
        return "\n".join(parts) or None

    def _process_result(self, entry: dict[str, Any]) -> dict[str, Any]:
        item = self._launched.get(entry["name"])
        return {
            "name": entry["name"],
            "role": entry["role"],
            "rank": entry["rank"],
            "exit_code": item.exit_code if item else None,
            "signal": item.signal if item else None,
            "summary": self._summary(entry["name"]),
        }

    def _summary(self, name: str) -> Any:
        return read_json(os.path.join(self.folder, name, "rank.json"))

    def _note_exits(self) -> None:
        for name, item in self._launched.items():
            if not item.running and name not in self._exits:
                self._exits.add(name)
                self._note("exit", process=name, code=item.returncode)

    def _note(self, event: str, **details: Any) -> None:
        self.job.log.write(event, repeat=self.number, **details)

    def _write_state(self) -> None:
        now = time.monotonic()
        self._state_due_s = now + STATE_INTERVAL_S
        processes = {}
        for name, item in self._launched.items():
            progress = self._progress[name]
            processes[name] = {
                "pid": item.pid,
                "phase": progress.phase,
                "step": progress.step,
                "t_s": progress.t_s,
                "exit_code": item.returncode,
            }
        write_json(
            os.path.join(self.folder, "state.json"),
            {
                "state": self.state,
                "ports": self._ports,
                "processes": processes,
                "reason": self.reason,
                "t_s": round(now, 3),
                "at": utc_now(),
            },
        )
