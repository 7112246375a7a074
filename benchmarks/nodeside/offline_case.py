"""One case of an exported plan, as its lead measures it: what a controller does over SSH.

    job.json                         as it was planned
    repeats/001.json                 when a repeat was, readings of the clocks, why it was ended
    measured.json                    written last: digests of all that was measured
    nodes/<node>/job.json            the same job; data addresses as the machines gave them
    nodes/<node>/repeats/001/        what the agent of that node wrote

A second call goes on with the next repeat; a repeat that was interrupted is launched again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import time
from typing import Any

from nodeside.files import AgentError, read_json, utc_now, write_json, write_text
from nodeside.members import Member, MemberGone, RemoteMember
from nodeside.offline_decisions import failure_of, next_command, progress, why_to_abort
from nodeside.reasons import Reason

SCHEMA = "nightbench.export/1"
POLL_S = 0.2
BEAT_S = 1.0
ALIVE_S = 5.0
"""Interval in which another machine is asked whether it is still there."""

END_S = 60.0
"""Time in which a repeat that is ended has ended on all nodes."""

_SHOWN = ("subject", "code", "observed")

FAILURES = 2
"""Repeats that fail one after another, with which a case ends."""


class OfflineCase:
    """One exported case.

    Args:
        folder: of the case; shared by its machines.
        where: its place among all cases, for progress.

    Raises:
        AgentError: it has no job.json.
    """

    def __init__(self, folder: str, where: str) -> None:
        self._folder = folder
        self.where = where
        document = read_json(os.path.join(folder, "job.json"))
        if not isinstance(document, dict):
            raise AgentError(
                "no readable job.json in {}".format(folder), "export the plan into a new folder"
            )
        self.document: dict[str, Any] = document
        self.nodes: list[str] = [each["name"] for each in document["nodes"]]
        self._trainers = [p["name"] for p in document["processes"] if p["measured"]]
        self._members: dict[str, Member | RemoteMember] = {}
        self._epoch = 0
        self._beats = 0
        self._beat_s = 0.0

    def node_folder(self, node: str) -> str:
        """Return the job directory of a node."""
        return os.path.join(self._folder, "nodes", node)

    def is_measured(self) -> bool:
        """Return whether all of it has been measured."""
        return os.path.exists(os.path.join(self._folder, "measured.json"))

    def statuses(self) -> list[str]:
        """Return the status of each repeat that has ended: ok, failed or aborted."""
        found: list[str] = []
        while os.path.exists(self._record_path(len(found) + 1)):
            found.append(self._status(len(found) + 1))
        return found

    def _status(self, number: int) -> str:
        seen = {str((self._result(node, number) or {}).get("status")) for node in self.nodes}
        if seen == {"ok"}:
            return "ok"
        record = read_json(self._record_path(number)) or {}
        # Nobody but this program's user has ended it: it says nothing of the case.
        interrupted = seen <= {"ok", "aborted"} and not record.get("aborted")
        return "aborted" if interrupted else "failed"

    # --- from the first repeat to the last ---------------------------------------------------

    def measure(self, here: Member) -> None:
        """Launch the repeats that are left, and write measured.json.

        Args:
            here: the node of this machine, the first one of the case.

        Raises:
            AgentError: an agent cannot be started, or has ended before a repeat had a result.
            KeyboardInterrupt: the user interrupts it; this agent has ended its processes.
        """
        others = (RemoteMember(self.node_folder(node), node) for node in self.nodes[1:])
        self._members = {self.nodes[0]: here, **{each.node: each for each in others}}
        try:
            self._gather(len(self.statuses()) + 1)
            self._write_jobs()
            self._claim_epoch()
            if any(map(self._runs, self._members.values())):
                # What an earlier call has left ends before its repeats are forgotten.
                self._stop()
                self._claim_epoch()
            self._forget_interrupted()
            while not self._is_complete():
                number = len(self.statuses()) + 1
                self._run_repeat(number)
                self._say(number, ": ".join([self._status(number), *self._why(number)]), end="\n")
            self._write_measured()
        finally:
            # A second Ctrl-C must not interrupt the clean-up.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if self._epoch:
                self._stop()
            for member in self._members.values():
                member.close()
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _gather(self, number: int) -> None:
        """Wait until all machines of the case are there."""
        while True:
            absent = [m.node for m in self._others() if not m.connect()]
            if not absent:
                return
            self._say(number, "waits for the machines of {}".format(", ".join(absent)))
            time.sleep(1.0)

    def _others(self) -> list[RemoteMember]:
        return [m for m in self._members.values() if isinstance(m, RemoteMember)]

    def _write_jobs(self) -> None:
        """Write the job of each node, with the addresses at which the machines have been found."""
        nodes = []
        for node in self.document["nodes"]:
            here = read_json(os.path.join(self.node_folder(node["name"]), "here.json")) or {}
            nodes.append(dict(node, data_address=here.get("host", node["data_address"])))
        for name in self.nodes:
            path = os.path.join(self.node_folder(name), "job.json")
            write_json(path, dict(self.document, nodes=nodes))

    def _is_complete(self) -> bool:
        statuses = self.statuses()
        last = [status != "ok" for status in statuses[-FAILURES:]]
        failing = len(last) == FAILURES and all(last)
        return failing or len(statuses) >= self.document["protocol"]["repeats"]

    def _claim_epoch(self) -> None:
        """Commands of an earlier call are ignored from here on."""
        for node in self.nodes:
            control = os.path.join(self.node_folder(node), "control")
            os.makedirs(control, exist_ok=True)
            known = [int(name[6:]) for name in os.listdir(control) if name.startswith("epoch-")]
            self._epoch = max(self._epoch, *known, 0)
        self._epoch += 1
        for node in self.nodes:
            control = os.path.join(self.node_folder(node), "control")
            os.mkdir(os.path.join(control, "epoch-{:04d}".format(self._epoch)))

    def _forget_interrupted(self) -> None:
        """Remove a repeat that an earlier call was interrupted in: it is launched again."""
        statuses = self.statuses()
        kept = statuses.index("aborted") if "aborted" in statuses else len(statuses)
        for number in range(kept + 1, len(statuses) + 1):
            os.unlink(self._record_path(number))
        for node in self.nodes:
            repeats = os.path.join(self.node_folder(node), "repeats")
            for name in os.listdir(repeats) if os.path.isdir(repeats) else ():
                if int(name) > kept:
                    shutil.rmtree(os.path.join(repeats, name))

    def _stop(self) -> None:
        """Have all agents end their processes and leave."""
        for node in self.nodes:
            path = os.path.join(self.node_folder(node), "control", "stop.json")
            write_json(path, {"epoch": self._epoch})
        until_s = time.monotonic() + END_S
        while any(self._runs(m) for m in self._members.values()) and time.monotonic() < until_s:
            time.sleep(POLL_S)

    @staticmethod
    def _runs(member: Member | RemoteMember) -> bool:
        """Return whether the agent of a node runs; an absent one ends by its lease."""
        try:
            return member.is_running()
        except MemberGone:
            return False

    # --- one repeat --------------------------------------------------------------------------

    def _run_repeat(self, number: int) -> None:
        """Tell the agents what a controller would, until the repeat has ended on all nodes."""
        self._start_agents(number)
        began, clocks = utc_now(), self._clocks()
        self._command("prepare", number)
        sent, lost = {"prepare"}, set()
        aborted: list[Reason] = []
        until_s, ask_s = float("inf"), 0.0
        while time.monotonic() < until_s:
            self._beat()
            results = {node: self._result(node, number) for node in self.nodes}
            if all(results[node] is not None for node in self.nodes if node not in lost):
                break
            if time.monotonic() >= ask_s:
                lost.update(self._lost(number))
                ask_s = time.monotonic() + ALIVE_S
            states = {node: self._state(node, number) for node in self.nodes}
            why = why_to_abort(states, results, lost)
            if why and not aborted and len(self.nodes) > 1:
                aborted, until_s = why, time.monotonic() + END_S
                self._command("abort", number, reasons=aborted)
            verb = next_command(list(states.values()), self._trainers)
            if verb and verb not in sent and not aborted:
                ports = {k: v for s in states.values() for k, v in (s.get("ports") or {}).items()}
                self._command(verb, number, **({"ports": ports} if verb == "go" else {}))
                sent.add(verb)
            self._say(number, self._waiting() or progress(states.values(), self._trainers))
            time.sleep(POLL_S)
        for node, reading in self._clocks().items():
            clocks[node] = min(clocks.get(node, reading), reading, key=lambda each: each[1])
        record = {
            "started_at": began,
            "ended_at": utc_now(),
            "aborted": aborted,
            "died": sorted(lost),
            "clocks": {n: {"offset_s": c[0], "error_s": c[1]} for n, c in clocks.items()},
        }
        os.makedirs(os.path.dirname(self._record_path(number)), exist_ok=True)
        write_json(self._record_path(number), record, durable=True)

    def _start_agents(self, number: int) -> None:
        """Start the agents that do not run, once all machines are there."""
        while True:
            self._gather(number)
            self._beat()
            try:
                for member in self._members.values():
                    member.start()
                return
            except MemberGone:
                continue  # it is waited for

    def _clocks(self) -> dict[str, tuple[float, float]]:
        """Return node -> offset and error of its clock, of those that answer."""
        found = {}
        for node, member in self._members.items():
            try:
                found[node] = member.clock()
            except MemberGone:
                continue
        return found

    def _lost(self, number: int) -> list[str]:
        """Return the nodes without a result whose machine or agent is gone.

        Raises:
            AgentError: the agent of this machine is.
        """
        gone = [m for m in self._members.values() if not self._runs(m)]
        lost = [m for m in gone if self._result(m.node, number) is None]
        for member in lost:
            if isinstance(member, Member):
                raise AgentError(
                    "{}: the agent has ended: {}".format(
                        self.where, self._agent(member.node).get("reasons")
                    ),
                    "its log is {}".format(os.path.join(member.folder, "agent.jsonl")),
                )
        return [member.node for member in lost]

    def _beat(self) -> None:
        """Renew the lease of all agents."""
        if time.monotonic() - self._beat_s < BEAT_S:
            return
        self._beat_s = time.monotonic()
        self._beats += 1
        for node in self.nodes:
            path = os.path.join(self.node_folder(node), "control", "lease")
            write_text(path, "{} {}\n".format(self._epoch, self._beats))

    def _command(self, verb: str, number: int, **more: Any) -> None:
        name = "{}-{:03d}.json".format(verb, number)
        document = dict(more, epoch=self._epoch)
        for node in self.nodes:
            write_json(os.path.join(self.node_folder(node), "control", name), document)

    # --- files -------------------------------------------------------------------------------

    def _agent(self, node: str) -> dict[str, Any]:
        return read_json(os.path.join(self.node_folder(node), "agent.json")) or {}

    def _state(self, node: str, number: int) -> dict[str, Any]:
        return read_json(self._path(node, number, "state.json")) or {}

    def _result(self, node: str, number: int) -> dict[str, Any] | None:
        found = read_json(self._path(node, number, "result.json"))
        return found if isinstance(found, dict) else None

    def _path(self, node: str, number: int, *names: str) -> str:
        return os.path.join(self.node_folder(node), "repeats", "{:03d}".format(number), *names)

    def _record_path(self, number: int) -> str:
        return os.path.join(self._folder, "repeats", "{:03d}.json".format(number))

    def _write_measured(self) -> None:
        """Say that the case is complete, with a digest of each file that is loaded."""
        numbers = range(1, len(self.statuses()) + 1)
        names = ["job.json"] + ["repeats/{:03d}.json".format(number) for number in numbers]
        for node in self.nodes:
            names.append("nodes/{}/fingerprint.json".format(node))
            names += ["nodes/{}/repeats/{:03d}/result.json".format(node, n) for n in numbers]
        digests = {}
        for name in names:
            path = os.path.join(self._folder, name)
            if os.path.exists(path):  # a machine that was lost has written none
                with open(path, "rb") as stream:
                    digests[name] = hashlib.sha256(stream.read()).hexdigest()
        document = {"schema": SCHEMA, "job_id": self.document["job_id"], "files": digests}
        write_json(
            os.path.join(self._folder, "measured.json"),
            dict(document, ended_at=utc_now()),
            durable=True,
        )

    # --- what is shown -----------------------------------------------------------------------

    def _why(self, number: int) -> list[str]:
        """Return why a repeat is not good, with the first error of its ranks; nothing if it is."""
        if self._status(number) == "ok":
            return []
        results = {node: self._result(node, number) for node in self.nodes}
        found = failure_of(results) or (read_json(self._record_path(number)) or {}).get("aborted")
        words = [
            (each["node"] if len(self.nodes) > 1 else "", *(each[k] for k in _SHOWN))
            for each in found or []
        ]
        said = "; ".join(" ".join(filter(None, each)) for each in words)
        errors = [
            str(process["error"])
            for result in results.values()
            for process in (result or {}).get("processes") or []
            if process.get("error")
        ]
        logs = os.path.dirname(self._path(self.nodes[0], number))
        if len(self.nodes) == 1:
            logs = self._path(self.nodes[0], number)
        return ["\n".join([said, *errors[:1], "its logs: " + logs])]

    def _waiting(self) -> str:
        """Return who holds a node, where an agent waits for its lock."""
        for node in self.nodes:
            agent = self._agent(node)
            if agent.get("state") == "waiting":
                return "{} waits for {}".format(node, agent.get("holder"))
        return ""

    def _say(self, number: int, words: str, end: str = "") -> None:
        repeats = self.document["protocol"]["repeats"]
        say(self.where, "repeat {} of {}: {}".format(number, repeats, words), end)


def say(where: str, words: str, end: str = "") -> None:
    """Show progress: one line that is written over on a terminal, else only what is final."""
    line = "{}: {}".format(where, words)
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + line + end)
    elif end:
        sys.stderr.write(line + end)
    sys.stderr.flush()
