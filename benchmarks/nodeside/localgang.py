"""The processes of one repeat on this node: started once, watched, ended without a rest."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Mapping

from nodeside import stacks
from nodeside.cgroups import WHOLE_MACHINE, Cgroup
from nodeside.files import read_json, tail
from nodeside.job import NodeJob
from nodeside.processes import Launched, end_marked, end_processes, launch, reap
from nodeside.progress import Progress
from nodeside.reasons import (
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

LOSS_CODE = 3
"""Exit code of a rank whose loss is not finite."""

STALLED = 0.5
"""Where another node ends the gang first, what stood still for this part of the limit is asked."""


class LocalGang:
    """What runs here, and what has become of it.

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
        self._progress: dict[str, Progress] = {}
        self._cgroup: Cgroup | None = None
        self._exits: set[str] = set()
        self._failed: str | None = None
        self._stacks: dict[str, str] = {}
        self.killed: list[int] = []
        self.started_s = time.monotonic()

    def start(self, commands: list[dict[str, Any]]) -> None:
        """Start everything that launch.py named.

        Raises:
            AgentError: a program cannot be started.
        """
        roles = {entry["name"]: entry for entry in self._job.processes}
        self._cgroup = Cgroup(self._number)
        self.started_s = time.monotonic()
        for command in commands:
            name = command["name"]
            folder = os.path.join(self._folder, name)
            os.makedirs(folder, exist_ok=True)
            env = self._job.environment(roles[name], command.get("env") or {}, self._number)
            started = launch(name, command["argv"], env, folder, self._job.cpus, self._cgroup.procs)
            self._launched[name] = started
            self._progress[name] = Progress(os.path.join(folder, "steps.jsonl"))
            self._note("launch", process=name, pid=started.pid)

    def reap(self) -> None:
        """Take note of what has ended."""
        reap(self._launched.values())
        for name, item in self._launched.items():
            if not item.running and name not in self._exits:
                self._exits.add(name)
                self._note("exit", process=name, code=item.returncode)

    def measured(self) -> list[Launched]:
        """Processes that train and are timed, in the job's order."""
        return [x for name, x in self._launched.items() if name in self._measured]

    def serving(self) -> list[Launched]:
        """Processes that serve until they are ended, in the job's order."""
        return [x for name, x in self._launched.items() if name not in self._measured]

    def pids(self) -> list[int]:
        """Of all that were started."""
        return [item.pid for item in self._launched.values()]

    def trainer_phases(self) -> tuple[str, ...]:
        """The phase of each measured process as it was seen last."""
        return tuple(self._progress[item.name].phase for item in self.measured())

    def summary(self, name: str) -> Any:
        """rank.json of a process; None where there is none."""
        return read_json(os.path.join(self._folder, name, "rank.json"))

    # --- failures ------------------------------------------------------------------------

    def find_failure(self) -> list[Reason]:
        """Why the gang of this node has to end now; empty while all is well."""
        limits = self._job.limits
        for name, item in self._launched.items():
            if item.running:
                self._progress[name].look()
                continue
            if item.returncode != 0:
                self._failed = name
                return self._why_it_ended(item)
            if name in self._measured and self.summary(name) is None:
                self._failed = name
                return [reason(NO_RANK_FILE, self._job.node, name)]
        for item in self.measured():
            progress = self._progress[item.name]
            if item.running and progress.idle_s() > limits["progress_s"]:
                self._failed = item.name
                return [
                    reason(
                        NO_PROGRESS,
                        self._job.node,
                        item.name,
                        "still in phase {}, step {}".format(progress.phase, progress.step),
                        "a step within {:g} s".format(limits["progress_s"]),
                    )
                ]
        if self._takes_too_long():
            limit = "{:g} s".format(limits["repeat_s"])
            return [reason(REPEAT_TOO_LONG, self._job.node, expected=limit)]
        return []

    def _takes_too_long(self) -> bool:
        return time.monotonic() - self.started_s > self._job.limits["repeat_s"]

    def _why_it_ended(self, item: Launched) -> list[Reason]:
        node, name = self._job.node, item.name
        evidence = self._cgroup.out_of_memory() if self._cgroup else None
        if item.signal == signal.SIGKILL and evidence:
            return [reason(OUT_OF_MEMORY, node, name, evidence)]
        code = PROCESS_EXITED if item.signal is None else PROCESS_KILLED
        ended = reason(code, node, name, item.describe_end(), "code 0")
        if item.exit_code == LOSS_CODE:
            return [ended, reason(LOSS_NOT_FINITE, node, name)]
        if evidence and evidence != WHOLE_MACHINE:
            return [ended, reason(OUT_OF_MEMORY, node, "a process of {}".format(name), evidence)]
        return [ended]

    # --- the end -------------------------------------------------------------------------

    def end(self, well: bool) -> list[int]:
        """End every process and all that came of it; the pids that cannot be ended.

        Args:
            well: nothing is wrong. Otherwise what stands still is asked for its stack first.
        """
        if not well:
            self._take_stacks()
        launched = list(self._launched.values())
        killed = set(end_processes(launched, self._job.limits["term_s"]))
        by_mark, stuck = end_marked(self._job.job_id, self._job.node, launched)
        killed.update(by_mark)
        if self._cgroup is not None:
            killed.update(self._cgroup.kill(launched))
            self._cgroup.close()
        self.killed = sorted(killed)
        self.reap()
        for progress in self._progress.values():
            progress.look()
        return stuck

    def finish(self) -> None:
        """End the processes that serve: all that are measured are done."""
        servers = [item for item in self.serving() if item.running]
        self._note("finish", processes=[item.name for item in servers])
        end_processes(servers, self._job.limits["term_s"])

    def _take_stacks(self) -> None:
        patience_s = self._job.limits["progress_s"] * STALLED
        hung = {
            item.name: item.pid
            for item in self.measured()
            if item.running
            and (self._takes_too_long() or self._progress[item.name].idle_s() > patience_s)
        }
        if hung:
            folders = {name: os.path.join(self._folder, name) for name in hung}
            tool = stacks.find_tool(self._job.stack_tool, self._job.python)
            self._stacks = stacks.take(hung, folders, tool)
            said = {name: text.splitlines()[0] for name, text in self._stacks.items()}
            self._note("stacks", sources=said)

    # --- what is told of it --------------------------------------------------------------

    def states(self) -> dict[str, Any]:
        """The `processes` of state.json."""
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
        """The `processes` of result.json."""
        return [self._result(entry) for entry in self._job.processes]

    def _result(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        item = self._launched.get(entry["name"])
        return {
            "name": entry["name"],
            "role": entry["role"],
            "rank": entry["rank"],
            "measured": entry["measured"],
            "exit_code": item.exit_code if item else None,
            "signal": item.signal if item else None,
            "summary": self.summary(entry["name"]),
            "stack": self._stacks.get(entry["name"]),
        }

    def log_tail(self) -> str | None:
        """The end of the log of what failed; of all logs where nothing is known to."""
        names = [self._failed] if self._failed else sorted(self._launched)
        parts = []
        for name in names:
            text = tail(os.path.join(self._folder, name, "out.log"))
            if text:
                parts.append("[{} {}]\n{}".format(self._job.node, name, text))
        return "\n".join(parts) or None

    def _note(self, event: str, **details: Any) -> None:
        self._job.log.write(event, repeat=self._number, **details)
