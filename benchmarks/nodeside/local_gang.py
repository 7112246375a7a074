"""The processes of one repeat on this node: started once, watched, ended without leftovers."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Mapping

from nodeside import containers, stacks
from nodeside.binding import as_ranges
from nodeside.cgroups import WHOLE_MACHINE, Cgroup
from nodeside.files import parse_object, read_json, tail
from nodeside.job import NodeJob
from nodeside.processes import Launched, end_marked, end_processes, launch, reap
from nodeside.reasons import (
    EXCEPTION,
    LOSS_NOT_FINITE,
    NO_PROGRESS,
    NO_RANK_FILE,
    OUT_OF_MEMORY,
    PROCESS_EXITED,
    PROCESS_KILLED,
    REPEAT_TOO_LONG,
    Reason,
    reason,
)
from nodeside.tracebacks import Failure, read_failure, without_secrets

LOSS_CODE = 3
"""Exit code of a rank whose loss is not finite."""

HUNG_FRACTION = 0.5
"""Share of the progress limit after which a process counts as hung when the gang is ended."""


class LocalGang:
    """The launched processes, their progress and how they ended.

    Args:
        job: the job on this node.
        number: of the repeat.
        folder: of the repeat.
    """

    def __init__(self, job: NodeJob, number: int, folder: str) -> None:
        self._job = job
        self._number = number
        self._folder = folder
        self._measured = {entry["name"] for entry in job.processes if entry["measured"]}
        self._launched: dict[str, Launched] = {}
        self._progress: dict[str, StepsReader] = {}
        self._cgroup: Cgroup | None = None
        self._ended_s: dict[str, float] = {}
        self._looked_s = 0.0
        self._failed: str | None = None
        self._failures: dict[str, Failure] = {}
        self._env: dict[str, dict[str, str]] = {}
        self._stacks: dict[str, str] = {}
        self.killed: list[int] = []
        self.started_s = time.monotonic()

    def start(self, commands: list[dict[str, Any]]) -> None:
        """Start the processes that launch.py returned.

        Raises:
            AgentError: a program cannot be started.
        """
        roles = {entry["name"]: entry for entry in self._job.processes}
        self._cgroup = Cgroup(self._number, self._job.document["case"].get("memory_mb"))
        self.started_s = self._looked_s = time.monotonic()
        for command in commands:
            name = command["name"]
            folder = os.path.join(self._folder, name)
            os.makedirs(folder, exist_ok=True)
            env = self._job.environment(roles[name], command.get("env") or {}, self._number)
            self._env[name] = env
            cpus, procs = self._job.cores_of(name), self._cgroup.procs_of(name)
            started = launch(name, command["argv"], env, folder, cpus, procs)
            self._launched[name] = started
            self._progress[name] = StepsReader(os.path.join(folder, "steps.jsonl"))
            self._note("launch", process=name, pid=started.pid)

    def reap(self) -> None:
        """Record which processes have ended."""
        now = time.monotonic()
        reap(self._launched.values())
        for name, item in self._launched.items():
            if not item.running and name not in self._ended_s:
                self._ended_s[name] = self._last_words_s(name, now, item.returncode != 0)
                self._note("exit", process=name, code=item.returncode)
        self._looked_s = now

    def _last_words_s(self, name: str, now: float, has_failed: bool) -> float:
        """Return when a process ended between the last look and `now`, by its log's last write.

        Looks are a quarter of a second apart. A failed process can end the others within that time.
        A process that logged an exception failed then, even if it ended later.
        """
        try:
            written_s = now - (time.time() - os.stat(self._log(name)).st_mtime)
        except OSError:
            return now
        raised = has_failed and self._read_failure(name).exception is not None
        return min(written_s if raised else max(written_s, self._looked_s), now)

    def measured(self) -> list[Launched]:
        """Return the processes that train and are timed, in the job's order."""
        return [x for name, x in self._launched.items() if name in self._measured]

    def serving(self) -> list[Launched]:
        """Return the processes that serve until they are ended, in the job's order."""
        return [x for name, x in self._launched.items() if name not in self._measured]

    def pids(self) -> list[int]:
        """Return the pids of all started processes."""
        return [item.pid for item in self._launched.values()]

    def trainer_phases(self) -> tuple[str, ...]:
        """Return the last known phase of each measured process."""
        return tuple(self._progress[item.name].phase for item in self.measured())

    def summary(self, name: str) -> Any:
        """Return rank.json of a process; None if there is none."""
        return read_json(os.path.join(self._folder, name, "rank.json"))

    # --- failures ------------------------------------------------------------------------

    def find_failure(self, of_ended: bool = False) -> list[Reason]:
        """Return why the gang has to end now; empty if it has not.

        Args:
            of_ended: look only at processes that have ended.
        """
        found = self._find_death() or ([] if of_ended else self._find_overrun())
        if found:
            # Now: what processes write when they are ended is no failure of theirs.
            for name, item in self._launched.items():
                if not item.running and (item.returncode != 0 or name == self._failed):
                    self._failures[name] = self._read_failure(name)
        return found

    def _find_death(self) -> list[Reason]:
        """Return the end reasons of the first process that failed."""
        for name in sorted(self._ended_s, key=self._ended_s.__getitem__):
            item = self._launched[name]
            if item.returncode != 0:
                self._failed = name
                return self._end_reasons(item)
            if name in self._measured and self.summary(name) is None:
                self._failed = name
                return [reason(NO_RANK_FILE, self._job.node, name)]
        return []

    def _find_overrun(self) -> list[Reason]:
        """Return which process makes no progress, or that the repeat exceeds its time limit."""
        limits = self._job.limits
        for name, item in self._launched.items():
            if item.running:
                self._progress[name].read_new()
        for item in self.measured():
            progress = self._progress[item.name]
            if item.running and progress.idle_s() > limits["progress_s"]:
                self._failed = item.name
                return [
                    reason(
                        NO_PROGRESS,
                        self._job.node,
                        item.name,
                        'last seen in phase "{}", step {}'.format(progress.phase, progress.step),
                        "a step within {:g} s".format(limits["progress_s"]),
                    )
                ]
        if self._takes_too_long():
            limit = "{:g} s".format(limits["repeat_s"])
            return [reason(REPEAT_TOO_LONG, self._job.node, expected=limit)]
        return []

    def _takes_too_long(self) -> bool:
        return time.monotonic() - self.started_s > self._job.limits["repeat_s"]

    def _end_reasons(self, item: Launched) -> list[Reason]:
        node, name = self._job.node, item.name
        evidence = self._cgroup.out_of_memory() if self._cgroup else None
        if item.signal == signal.SIGKILL and evidence:
            return [reason(OUT_OF_MEMORY, node, name, evidence)]
        code = PROCESS_EXITED if item.signal is None else PROCESS_KILLED
        ended = reason(code, node, name, item.describe_end(), "code 0")
        exception = self._read_failure(name).exception
        if item.signal is None and exception:
            return [ended, reason(EXCEPTION, node, name, exception)]
        if item.exit_code == LOSS_CODE:
            return [ended, reason(LOSS_NOT_FINITE, node, name)]
        if evidence and evidence != WHOLE_MACHINE:
            return [ended, reason(OUT_OF_MEMORY, node, "a process of {}".format(name), evidence)]
        # A framework may crash while its process ends for another reason.
        return [ended, reason(EXCEPTION, node, name, exception)] if exception else [ended]

    def _read_failure(self, name: str) -> Failure:
        build = self._job.document["framework"]
        packages = "frameworks/{line}/requirements-{variant}.in".format(**build)
        return read_failure(self._log(name), self._job.code, self._env[name], packages)

    def _log(self, name: str) -> str:
        return os.path.join(self._folder, name, "out.log")

    # --- the end -------------------------------------------------------------------------

    def end(self, well: bool) -> list[int]:
        """End all processes and their descendants; return the pids that cannot be ended.

        Args:
            well: the repeat has not failed. Otherwise stacks of hung processes are taken first.
        """
        if not well:
            self._take_stacks()
        launched = list(self._launched.values())
        killed = set(end_processes(launched, self._job.limits["term_s"]))
        by_mark, stuck = end_marked(self._job.job_id, self._job.node, launched)
        killed.update(by_mark)
        if launched:
            containers.remove_of(self._job.python, self._job.job_id, self._job.node)
        if self._cgroup is not None:
            killed.update(self._cgroup.kill(launched))
            self._cgroup.close()
        self.killed = sorted(killed)
        self.reap()
        for progress in self._progress.values():
            progress.read_new()
        return stuck

    def finish(self) -> None:
        """End the processes that serve, once all measured ones have exited."""
        servers = [item for item in self.serving() if item.running]
        self._note("finish", processes=[item.name for item in servers])
        end_processes(servers, self._job.limits["term_s"])

    def _take_stacks(self) -> None:
        hung_s = self._job.limits["progress_s"] * HUNG_FRACTION
        hung = {
            item.name: item.pid
            for item in self.measured()
            if item.running
            and (self._takes_too_long() or self._progress[item.name].idle_s() > hung_s)
        }
        if hung:
            folders = {name: os.path.join(self._folder, name) for name in hung}
            tool = stacks.find_tool(self._job.stack_tool, self._job.python)
            self._stacks = stacks.take(hung, folders, tool)
            said = {name: text.splitlines()[0] for name, text in self._stacks.items()}
            self._note("stacks", sources=said)

    # --- documents -----------------------------------------------------------------------

    def states(self) -> dict[str, Any]:
        """Return the `processes` of state.json."""
        return {
            name: {
                "pid": item.pid,
                "phase": self._progress[name].phase,
                "step": self._progress[name].step,
                "t_s": self._progress[name].t_s,
                "exit_code": item.returncode,
            }
            for name, item in self._launched.items()
        }

    def results(self) -> list[dict[str, Any]]:
        """Return the `processes` of result.json."""
        return [self._result(entry) for entry in self._job.processes]

    def _result(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        item = self._launched.get(entry["name"])
        failure = self._failures.get(entry["name"])
        progress = self._progress.get(entry["name"])
        return {
            "name": entry["name"],
            "role": entry["role"],
            "rank": entry["rank"],
            "measured": entry["measured"],
            "cpus": as_ranges(self._job.cores_of(entry["name"])) or None,
            "exit_code": item.exit_code if item else None,
            "signal": item.signal if item else None,
            "summary": self.summary(entry["name"]),
            "stack": self._stacks.get(entry["name"]),
            "error": (failure.lines or None) if failure else None,
            "failed_s": self._ended_s.get(entry["name"]) if failure else None,
            "phase": progress.phase if progress else None,
            "step": progress.step if progress else None,
        }

    def log_tail(self) -> str | None:
        """Return the end of the failed process's log; of all logs if no failed process is known."""
        names = [self._failed] if self._failed else sorted(self._launched)
        parts = []
        for name in names:
            text = without_secrets(tail(self._log(name)), self._env[name])
            if text:
                parts.append("[{} {}]\n{}".format(self._job.node, name, text))
        return "\n".join(parts) or None

    def _note(self, event: str, **details: Any) -> None:
        self._job.log.write(event, repeat=self._number, **details)


class StepsReader:
    """Reads one steps.jsonl as it grows; it parses only the last complete record each time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self.phase = "start"
        self.step = 0
        self.t_s: float | None = None
        self.changed_s = time.monotonic()
        """The agent's clock when the last new record was seen."""

    def read_new(self) -> None:
        """Read what was written since the last call."""
        try:
            size = os.stat(self._path).st_size
            if size <= self._offset:
                return
            with open(self._path, "rb") as handle:
                handle.seek(self._offset)
                piece = handle.read()
        except OSError:
            return
        end = piece.rfind(b"\n") + 1
        if end == 0:
            return
        self._offset += end
        self.changed_s = time.monotonic()
        record = parse_object(piece[:end].rstrip(b"\n").rpartition(b"\n")[2])
        if record is None:
            return
        phase = record.get("phase")
        if isinstance(phase, str) and phase != self.phase:
            self.phase, self.step = phase, 0
        if record.get("kind") == "step":
            self.step = record.get("step", self.step)
        self.t_s = record.get("t_s", self.t_s)

    def idle_s(self) -> float:
        """Return the seconds since the last new record."""
        return time.monotonic() - self.changed_s
