"""`agent.py run DIR`: measures an exported plan on this machine, without SSH and without a network.

    DIR/export.json                  the run, its node, the cases in their order
    DIR/code/                        this tree
    DIR/jobs/<case_id>/job.json      a job directory; here the agent works as on any node
    DIR/jobs/<case_id>/measured.json written last: digests of all that was measured

The agent is told what a controller would tell it over SSH. A second call goes on with the next
repeat; a repeat that was interrupted is launched again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import time
from typing import Any

from nodeside import agent_daemon
from nodeside.files import AgentError, read_json, utc_now, write_json, write_text
from nodeside.fingerprint import fingerprint
from nodeside.processes import is_running

SCHEMA = "nightbench.export/1"
POLL_S = 0.2
STOP_S = 60.0
"""Time in which an agent that is told to stop has ended its processes."""

FAILURES = 2
"""Repeats that fail one after another, with which a case ends."""


def run(folder: str, python: str, agent_file: str) -> dict[str, Any]:
    """Measure all cases that have not been; return the run and case_id -> statuses of repeats.

    Args:
        folder: what `nightbench plan --export` wrote.
        python: interpreter of the framework.
        agent_file: path of agent.py.

    Raises:
        AgentError: the folder holds no plan, or a case cannot be measured here.
        KeyboardInterrupt: by Ctrl-C or SIGTERM; no process is left.
    """
    path = os.path.join(folder, "export.json")
    export = read_json(path) or {}
    if export.get("schema") != SCHEMA:
        raise AgentError(
            "{}: schema is {!r}, expected {!r}".format(path, export.get("schema"), SCHEMA),
            "name the folder that `nightbench plan SUITE --export` wrote",
        )
    interpreter = shutil.which(python)
    if interpreter is None:
        raise AgentError(
            "--python: found {!r}, which is no program here".format(python),
            "name the interpreter that has the framework",
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = {}
    for number, case_id in enumerate(export["cases"], start=1):
        where = "case {} of {}, {}".format(number, len(export["cases"]), case_id)
        job = OfflineJob(os.path.join(folder, "jobs", case_id), export["node"], where)
        if not job.is_measured():
            job.measure(os.path.abspath(interpreter), agent_file)
        found[case_id] = job.statuses()
    return {"run_id": export["run_id"], "cases": found}


class OfflineJob:
    """One exported case, and the agent that measures it here."""

    def __init__(self, folder: str, node: str, where: str) -> None:
        self._folder = folder
        self._node = node
        self._where = where
        self._job: dict[str, Any] = read_json(os.path.join(folder, "job.json")) or {}
        self._epoch = 0
        self._beats = 0
        self._pid: int | None = None

    def is_measured(self) -> bool:
        """Return whether all of it has been measured."""
        return os.path.exists(os.path.join(self._folder, "measured.json"))

    def statuses(self) -> list[str]:
        """Return the status of each repeat, up to the first that has no result."""
        found: list[str] = []
        while True:
            result = read_json(self._path(len(found) + 1, "result.json"))
            if result is None:
                return found
            found.append(str(result["status"]))

    def measure(self, python: str, agent_file: str) -> None:
        """Launch the repeats that are left, and write measured.json.

        Raises:
            AgentError: the agent has ended before a repeat had a result.
            KeyboardInterrupt: the user interrupts it; the agent has ended its processes.
        """
        code = os.path.dirname(os.path.abspath(agent_file))
        write_text(os.path.join(self._folder, "python"), python + "\n")
        print_path = os.path.join(self._folder, "fingerprint.json")
        write_json(print_path, fingerprint(code, python, self._job))
        self._claim_epoch()
        self._forget_interrupted()
        self._pid = agent_daemon.start(self._folder, self._node, agent_file)["pid"]
        try:
            while not self._is_complete():
                number, began = len(self.statuses()) + 1, utc_now()
                status = self._run_repeat(number)
                times = {"started_at": began, "ended_at": utc_now()}
                write_json(self._path(number, "times.json"), times)
                self._say(number, ": ".join([status, *self._why(number)]), end="\n")
        finally:
            # A second Ctrl-C must not interrupt the clean-up.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._stop()
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._write_measured()

    def _why(self, number: int) -> list[str]:
        """Return why a repeat is not good, with the first error of its ranks; nothing if it is."""
        result = read_json(self._path(number, "result.json")) or {}
        if result.get("status") == "ok":
            return []
        said = "; ".join(
            " ".join(filter(None, (each["subject"], each["code"], each["observed"])))
            for each in result.get("reasons") or []
        )
        errors = [str(each["error"]) for each in result["processes"] if each.get("error")]
        return ["\n".join([said, *errors[:1], "its logs: " + self._path(number)])]

    def _is_complete(self) -> bool:
        statuses = self.statuses()
        last = [status != "ok" for status in statuses[-FAILURES:]]
        failing = len(last) == FAILURES and all(last)
        return failing or len(statuses) >= self._job["protocol"]["repeats"]

    def _claim_epoch(self) -> None:
        """Commands of an earlier call are ignored from here on."""
        control = os.path.join(self._folder, "control")
        os.makedirs(control, exist_ok=True)
        epochs = [int(name[6:]) for name in os.listdir(control) if name.startswith("epoch-")]
        self._epoch = max(epochs, default=0) + 1
        os.mkdir(os.path.join(control, "epoch-{:04d}".format(self._epoch)))

    def _forget_interrupted(self) -> None:
        """Remove a repeat that an earlier call was interrupted in: it is launched again."""
        statuses = self.statuses()
        for number, status in enumerate(statuses, start=1):
            if status == "aborted" or not os.path.exists(self._path(number, "times.json")):
                for later in range(number, len(statuses) + 1):
                    shutil.rmtree(self._path(later))
                return

    def _run_repeat(self, number: int) -> str:
        """Tell the agent what a controller would; return the status of the repeat."""
        trainers = [p["name"] for p in self._job["processes"] if p["measured"]]
        self._command("prepare", number)
        sent = {"prepare"}
        while True:
            self._beats += 1
            write_text(
                os.path.join(self._folder, "control", "lease"),
                "{} {}\n".format(self._epoch, self._beats),
            )
            agent = self._agent()
            result = read_json(self._path(number, "result.json"))
            if result is not None:
                return str(result["status"])
            if agent.get("state") == "ended" or not is_running(self._pid or 0):
                raise AgentError(
                    "{}: the agent has ended: {}".format(self._where, agent.get("reasons")),
                    "its log is {}".format(os.path.join(self._folder, "agent.jsonl")),
                )
            state = read_json(self._path(number, "state.json")) or {}
            verb = next_command(state, trainers)
            if verb and verb not in sent:
                more = {"ports": state["ports"]} if verb == "go" else {}
                self._command(verb, number, **more)
                sent.add(verb)
            self._say(number, waiting_for(agent) or progress(state, trainers))
            time.sleep(POLL_S)

    def _agent(self) -> dict[str, Any]:
        """Return what this call's agent says of itself; an earlier one may have left a file."""
        agent = read_json(os.path.join(self._folder, "agent.json")) or {}
        return agent if agent.get("pid") == self._pid else {}

    def _command(self, verb: str, number: int, **more: Any) -> None:
        name = "{}-{:03d}.json".format(verb, number)
        document = dict(more, epoch=self._epoch)
        write_json(os.path.join(self._folder, "control", name), document)

    def _stop(self) -> None:
        """Have the agent end all processes and leave."""
        write_json(os.path.join(self._folder, "control", "stop.json"), {"epoch": self._epoch})
        until_s = time.monotonic() + STOP_S
        while time.monotonic() < until_s:
            if self._pid is None or not is_running(self._pid):
                return
            time.sleep(POLL_S)

    def _write_measured(self) -> None:
        """Say that the case is complete, with a digest of each file that is loaded."""
        names = ["job.json", "fingerprint.json"]
        names += [
            "repeats/{:03d}/{}.json".format(number, name)
            for number in range(1, len(self.statuses()) + 1)
            for name in ("result", "times")
        ]
        digests = {}
        for name in names:
            with open(os.path.join(self._folder, name), "rb") as stream:
                digests[name] = hashlib.sha256(stream.read()).hexdigest()
        document = {"schema": SCHEMA, "job_id": self._job["job_id"], "files": digests}
        write_json(
            os.path.join(self._folder, "measured.json"),
            dict(document, ended_at=utc_now()),
            durable=True,
        )

    def _path(self, number: int, *names: str) -> str:
        return os.path.join(self._folder, "repeats", "{:03d}".format(number), *names)

    def _say(self, number: int, words: str, end: str = "") -> None:
        """Show progress: one line that is written over on a terminal, else only what is final."""
        repeats = self._job["protocol"]["repeats"]
        line = "{}: repeat {} of {}: {}".format(self._where, number, repeats, words)
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K" + line + end)
        elif end:
            sys.stderr.write(line + end)
        sys.stderr.flush()


def next_command(state: dict[str, Any], trainers: list[str]) -> str | None:
    """Return what a repeat on one node waits for: go, drain or finish; None where for nothing."""
    if state.get("state") == "ready":
        return "go"
    processes = state.get("processes") or {}
    seen = [processes.get(name) or {} for name in trainers]
    if not seen or state.get("state") not in ("running", "draining"):
        return None
    if all(process.get("exit_code") == 0 for process in seen):
        return "finish"
    ended = [p.get("exit_code") is not None or p.get("phase") == "drain" for p in seen]
    return "drain" if all(ended) else None


def waiting_for(agent: dict[str, Any]) -> str:
    """Return who holds the machine, where the agent waits for its lock."""
    return "waits for {}".format(agent.get("holder")) if agent.get("state") == "waiting" else ""


def progress(state: dict[str, Any], trainers: list[str]) -> str:
    """Return phase and step of the first trainer."""
    process = (state.get("processes") or {}).get(trainers[0]) or {}
    if process.get("phase") in ("warmup", "window"):
        return "{} step {}".format(process["phase"], process["step"])
    return str(process.get("phase") or state.get("state") or "preparing")
