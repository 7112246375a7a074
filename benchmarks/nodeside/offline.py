"""`agent.py run DIR`: measures an exported plan, without SSH and without the control plane.

    DIR/export.json                       the run and its cases in their order
    DIR/code/                             this tree
    DIR/jobs/<case_id>/job.json           a case as it was planned
    DIR/jobs/<case_id>/repeats/001.json   when a repeat was
    DIR/jobs/<case_id>/measured.json      written last: digests of all that was measured
    DIR/jobs/<case_id>/nodes/<node>/      job.json, and what the agent of the node wrote

A second call continues with the next repeat; a repeat that was interrupted is launched again.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import Any, Mapping, Sequence

from nodeside import agent_start
from nodeside.commands import highest_epoch
from nodeside.files import AgentError, file_digest, read_json, utc_now, write_json, write_text

SCHEMA = "nightbench.export/1"
POLL_S = 0.2
BEAT_S = 1.0
ALIVE_S = 5.0
"""Interval between checks that the agent's process exists."""

END_S = 60.0
"""Maximum time for the agent to end a repeat."""

_SHOWN = ("subject", "code", "observed")

FAILURES = 2
"""Number of consecutive failed repeats after which a case ends."""


def run(folder: str, python: str, case: str | None, agent_file: str) -> dict[str, Any]:
    """Measure all cases that are not measured yet; return the run and case_id -> repeats' statuses.

    Args:
        folder: the folder that `nightbench offline export` wrote.
        python: interpreter of the framework.
        case: measure only this case; None: all cases.
        agent_file: path of agent.py.

    Raises:
        AgentError: the folder has no plan, or a case cannot be measured here.
        KeyboardInterrupt: by Ctrl-C or SIGTERM; no process is left on this machine.
    """
    path = os.path.join(folder, "export.json")
    export = read_json(path) or {}
    if export.get("schema") != SCHEMA:
        raise AgentError(
            "{}: schema is {!r}, expected {!r}".format(path, export.get("schema"), SCHEMA),
            "name the folder that `nightbench offline export` wrote",
        )
    cases = list(export["cases"])
    if case is not None and case not in cases:
        raise AgentError(
            "--case: found {!r}; expected one of {}".format(case, ", ".join(cases)),
        )
    interpreter = shutil.which(python)
    if interpreter is None:
        raise AgentError(
            "--python: found {!r}, which is no program here".format(python),
            "name the interpreter that has the framework",
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = {}
    for number, case_id in enumerate(cases, start=1):
        if case is not None and case_id != case:
            continue
        where = "case {} of {}, {}".format(number, len(cases), case_id)
        measured = OfflineCase(os.path.join(folder, "jobs", case_id), where)
        if not measured.is_measured():
            measured.measure(os.path.abspath(interpreter), agent_file)
        found[case_id] = measured.statuses()
    return {"run_id": export["run_id"], "cases": found}


class OfflineCase:
    """One exported case, which has one node: does what a controller does over SSH.

    Args:
        folder: of the case.
        where: its position among all cases, for progress.

    Raises:
        AgentError: the case has no job.json.
    """

    def __init__(self, folder: str, where: str) -> None:
        self._folder = folder
        self._where = where
        document = read_json(os.path.join(folder, "job.json"))
        if document is None:
            raise AgentError(
                "no readable job.json in {}".format(folder), "export the plan into a new folder"
            )
        self._document: dict[str, Any] = document
        self._node = str(document["nodes"][0]["name"])
        self._node_folder = os.path.join(folder, "nodes", self._node)
        self._trainers = [p["name"] for p in document["processes"] if p["measured"]]
        self._epoch = 0
        self._beats = 0
        self._beat_s = 0.0

    def is_measured(self) -> bool:
        """Return whether the whole case has been measured."""
        return os.path.exists(os.path.join(self._folder, "measured.json"))

    def statuses(self) -> list[str]:
        """Return the status of each repeat that has ended: ok, failed or aborted."""
        found: list[str] = []
        while os.path.exists(self._record_path(len(found) + 1)):
            found.append(self._status(len(found) + 1))
        return found

    def _status(self, number: int) -> str:
        status = (self._result(number) or {}).get("status")
        return str(status) if status in ("ok", "aborted") else "failed"

    # --- from the first repeat to the last ---------------------------------------------------

    def measure(self, python: str, agent_file: str) -> None:
        """Launch the repeats that are left, and write measured.json.

        Args:
            python: interpreter of the framework.
            agent_file: path of agent.py.

        Raises:
            AgentError: the agent cannot be started, or has ended before a repeat had a result.
            KeyboardInterrupt: the user interrupts it; the agent has ended its processes.
        """
        os.makedirs(self._node_folder, exist_ok=True)
        write_text(os.path.join(self._node_folder, "python"), python + "\n")
        write_json(os.path.join(self._node_folder, "job.json"), self._document)
        try:
            self._claim_epoch()
            if self._is_running():
                # What an earlier call has left ends before its repeats are forgotten.
                self._stop()
                self._claim_epoch()
            self._forget_interrupted()
            while not self._is_complete():
                number = len(self.statuses()) + 1
                self._run_repeat(number, agent_file)
                self._say(number, ": ".join([self._status(number), *self._why(number)]), end="\n")
            self._write_measured()
        finally:
            # A second Ctrl-C must not interrupt the clean-up.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if self._epoch:
                self._stop()
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _is_complete(self) -> bool:
        statuses = self.statuses()
        last = [status != "ok" for status in statuses[-FAILURES:]]
        failing = len(last) == FAILURES and all(last)
        return failing or len(statuses) >= self._document["protocol"]["repeats"]

    def _claim_epoch(self) -> None:
        """Start a new epoch, from which on commands of an earlier call are ignored."""
        control = os.path.join(self._node_folder, "control")
        os.makedirs(control, exist_ok=True)
        self._epoch = max(self._epoch, highest_epoch(os.listdir(control))) + 1
        os.mkdir(os.path.join(control, "epoch-{:04d}".format(self._epoch)))

    def _forget_interrupted(self) -> None:
        """Remove repeats that an earlier call did not finish: they are launched again."""
        statuses = self.statuses()
        kept = statuses.index("aborted") if "aborted" in statuses else len(statuses)
        for number in range(kept + 1, len(statuses) + 1):
            os.unlink(self._record_path(number))
        repeats = os.path.join(self._node_folder, "repeats")
        for name in os.listdir(repeats) if os.path.isdir(repeats) else ():
            if name.isdigit() and int(name) > kept:
                shutil.rmtree(os.path.join(repeats, name))

    def _stop(self) -> None:
        """Make the agent end its processes and exit; wait for it."""
        path = os.path.join(self._node_folder, "control", "stop.json")
        write_json(path, {"epoch": self._epoch})
        until_s = time.monotonic() + END_S
        while self._is_running() and time.monotonic() < until_s:
            time.sleep(POLL_S)

    def _is_running(self) -> bool:
        return agent_start.is_served(self._node_folder)

    # --- one repeat --------------------------------------------------------------------------

    def _run_repeat(self, number: int, agent_file: str) -> None:
        """Send the agent the commands of a controller until the repeat has ended."""
        self._beat()
        agent_start.start(self._node_folder, self._node, agent_file)
        began = utc_now()
        self._command("prepare", number)
        sent = {"prepare"}
        alive_s = 0.0
        while self._result(number) is None:
            self._beat()
            if time.monotonic() >= alive_s:
                self._check_agent(number)
                alive_s = time.monotonic() + ALIVE_S
            state = read_json(self._path(number, "state.json")) or {}
            verb = next_command(state, self._trainers)
            if verb and verb not in sent:
                more = {"ports": state.get("ports") or {}} if verb == "go" else {}
                self._command(verb, number, **more)
                sent.add(verb)
            self._say(number, self._waiting() or progress(state, self._trainers))
            time.sleep(POLL_S)
        os.makedirs(os.path.dirname(self._record_path(number)), exist_ok=True)
        record = {"started_at": began, "ended_at": utc_now()}
        write_json(self._record_path(number), record, durable=True)

    def _check_agent(self, number: int) -> None:
        """Check that the agent runs, or has written the result of the repeat.

        Raises:
            AgentError: the agent has ended without a result.
        """
        if self._is_running() or self._result(number) is not None:
            return
        raise AgentError(
            "{}: the agent has ended: {}".format(self._where, self._agent().get("reasons")),
            "its log is {}".format(os.path.join(self._node_folder, "agent.jsonl")),
        )

    def _beat(self) -> None:
        """Renew the lease of the agent."""
        if time.monotonic() - self._beat_s < BEAT_S:
            return
        self._beat_s = time.monotonic()
        self._beats += 1
        path = os.path.join(self._node_folder, "control", "lease")
        write_text(path, "{} {}\n".format(self._epoch, self._beats))

    def _command(self, verb: str, number: int, **more: Any) -> None:
        name = "{}-{:03d}.json".format(verb, number)
        document = dict(more, epoch=self._epoch)
        write_json(os.path.join(self._node_folder, "control", name), document)

    # --- files -------------------------------------------------------------------------------

    def _agent(self) -> dict[str, Any]:
        return read_json(os.path.join(self._node_folder, "agent.json")) or {}

    def _result(self, number: int) -> dict[str, Any] | None:
        return read_json(self._path(number, "result.json"))

    def _path(self, number: int, *names: str) -> str:
        return os.path.join(self._node_folder, "repeats", "{:03d}".format(number), *names)

    def _record_path(self, number: int) -> str:
        return os.path.join(self._folder, "repeats", "{:03d}.json".format(number))

    def _write_measured(self) -> None:
        """Record that the case is complete, with a digest of each file that is loaded."""
        numbers = range(1, len(self.statuses()) + 1)
        names = ["job.json"] + ["repeats/{:03d}.json".format(number) for number in numbers]
        names.append("nodes/{}/fingerprint.json".format(self._node))
        names += ["nodes/{}/repeats/{:03d}/result.json".format(self._node, n) for n in numbers]
        digests = {name: file_digest(os.path.join(self._folder, name)) for name in names}
        document = {"schema": SCHEMA, "job_id": self._document["job_id"], "files": digests}
        write_json(
            os.path.join(self._folder, "measured.json"),
            dict(document, ended_at=utc_now()),
            durable=True,
        )

    # --- what is shown -----------------------------------------------------------------------

    def _why(self, number: int) -> list[str]:
        """Return why a repeat is not ok, with the first error of its ranks; empty if it is ok."""
        if self._status(number) == "ok":
            return []
        result = self._result(number) or {}
        reasons = result.get("reasons") or []
        said = "; ".join(" ".join(filter(None, (r[k] for k in _SHOWN))) for r in reasons)
        processes = result.get("processes") or []
        errors = [str(process["error"]) for process in processes if process.get("error")]
        return ["\n".join([said, *errors[:1], "its logs: " + self._path(number)])]

    def _waiting(self) -> str:
        """Return who holds the lock that the agent waits for; empty if it does not wait."""
        agent = self._agent()
        if agent.get("state") != "waiting":
            return ""
        return "{} waits for {}".format(self._node, agent.get("holder"))

    def _say(self, number: int, words: str, end: str = "") -> None:
        """Print progress: on a terminal, overwrite one line; otherwise print only final lines."""
        repeats = self._document["protocol"]["repeats"]
        line = "{}: repeat {} of {}: {}".format(self._where, number, repeats, words)
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K" + line + end)
        elif end:
            sys.stderr.write(line + end)
        sys.stderr.flush()


def next_command(state: Mapping[str, Any], trainers: Sequence[str]) -> str | None:
    """Return the command that a repeat waits for: go, drain or finish; or None.

    Args:
        state: state.json of the node; empty if it has none.
        trainers: names of the measured processes.
    """
    if state.get("state") == "ready":
        return "go"
    if state.get("state") not in ("running", "draining", "done"):
        return None
    processes = state.get("processes") or {}
    seen = [processes.get(name) or {} for name in trainers]
    if all(process.get("exit_code") == 0 for process in seen):
        return "finish"
    ended = [p.get("exit_code") is not None or p.get("phase") == "drain" for p in seen]
    return "drain" if all(ended) else None


def progress(state: Mapping[str, Any], trainers: Sequence[str]) -> str:
    """Return phase and step of the first trainer."""
    process = (state.get("processes") or {}).get(trainers[0]) or {}
    if process.get("phase") in ("warmup", "window"):
        return "{} step {}".format(process["phase"], process["step"])
    return str(process.get("phase") or state.get("state") or "preparing")
