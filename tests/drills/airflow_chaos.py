"""Killing whatever runs, by a seed, and bringing the control plane back as its owner would."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.integration.live_airflow import Live, patiently
from tests.marks import marks

from nightbench.core.errors import UserError
from nightbench.local import deployment, lifecycle, processes
from nightbench.spool import RunSpool

CONTROL = deployment.SERVICES
"""PostgreSQL, the nodes' SSH server, Airflow's four, and what starts them again."""


def kill(pids: list[int]) -> None:
    """SIGKILL; one that has gone meanwhile is as dead as it was to be."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        # Started by this very process, it stays a zombie, which PostgreSQL takes for a postmaster.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def bring_back(live: Live, attempts: int = 5) -> None:
    """`nightbench up`, as often as a person would try it."""
    for attempt in range(1, attempts + 1):
        try:
            for line in lifecycle.up(live.stack.home):
                print(f"    up: {line}", flush=True)
            return
        except UserError as error:
            print(f"    up failed: {str(error)[-600:]}", flush=True)
            if attempt == attempts:
                raise


@dataclass
class Chaos:
    """Kills processes of a living system.

    Args:
        live: the system.
        rng: decides whom and when.
        of: begins the ids of what is measured; its agents and ranks are victims too.
    """

    live: Live
    rng: random.Random
    of: str
    told: list[str] = field(default_factory=list)

    def strike(self) -> str:
        """Kill one victim (or one with all its children); returns what it was."""
        victims: dict[str, Callable[[], list[int]]] = {
            **{name: partial(self._service, name) for name in CONTROL},
            "a task's process": self._worker,
            "an agent": lambda: self._of_node(b"NIGHTBENCH_AGENT"),
            "a rank": lambda: self._of_node(b"NIGHTBENCH_JOB"),
        }
        names = sorted(victims)
        while True:
            name = self.rng.choice(names)
            pids = victims[name]()
            if pids:
                break
            names.remove(name)
        kill(pids)
        said = f"killed {name} ({len(pids)} processes)"
        self.told.append(said)
        print(f"  {time.strftime('%H:%M:%S')} {said}", flush=True)
        return name

    def _service(self, name: str) -> list[int]:
        service = self.live.stack.running(name)
        if service is None or {name} == {
            w for w in deployment.WATCHDOGS if self.live.stack.running(w)
        }:
            return []  # The last watchdog: nobody would bring back anything.
        # Alone, its children go on without it; with them it is as if the machine had gone.
        alone = self.rng.random() < 0.5
        return [service.pid, *([] if alone else processes.descendants(service.pid))]

    def _worker(self) -> list[int]:
        scheduler = self.live.stack.running("scheduler")
        below = sorted(processes.descendants(scheduler.pid)) if scheduler else []
        # The children of the executor are idle workers; below them are the tasks.
        tasks = [p for p in below if "task" in _command(p)]
        return [self.rng.choice(tasks)] if tasks else []

    def _of_node(self, mark: bytes) -> list[int]:
        found = [p for p, m in marks(self.of).items() if m.startswith(mark.decode())]
        return [self.rng.choice(sorted(found))] if found else []


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    return ""


def finished(run: RunSpool) -> dict[str, bytes]:
    """The records of the repeats that have ended, with the nodes' results: path -> content."""
    found = {}
    root = Path(run.folder.path)
    for record in root.glob("cases/*/g*/repeat-*/controller.json"):
        for path in record.parent.glob("*.json"):
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


def accounting(live: Live, run: RunSpool) -> list[str]:
    """What is wrong with the books of a run that has ended; nothing if all is right."""
    wrong = [
        f"launched {count} times: {key}"
        for key, count in live.launches(run.run_id).items()
        if count != 1
    ]
    launched: dict[str, set[int]] = {}
    for job, repeat, _ in live.launches(run.run_id):
        launched.setdefault("/".join(job.split("/")[1:3]), set()).add(repeat)
    for case in (planned["case_id"] for planned in run.planned()):
        for generation in run.generations(case):
            store = run.case(case, generation)
            outcome = store.outcome()
            if outcome is None:
                wrong.append(f"{case} g{generation}: no outcome")
                continue
            told = [repeat["repeat"] for repeat in outcome["repeats"]]
            kept = store.repeats()
            began = launched.get(f"{case}/g{generation}", set())
            if told != kept:
                wrong.append(f"{case} g{generation}: the outcome has {told}, the spool {kept}")
            if not began <= set(kept):
                wrong.append(f"{case} g{generation}: launched {sorted(began)}, recorded {kept}")
    return wrong


def loaded_repeats(live: Live, run_id: str) -> dict[tuple[str, int], str]:
    """(case, repeat) -> status, as the warehouse has them."""
    from nightbench.warehouse import connect

    with (
        contextlib.closing(connect(live.stack.dsn("nightbench_reader"))) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "select case_id, repeat, status from marts.fct_repeat where run_id = %s", (run_id,)
        )
        return {(case, repeat): status for case, repeat, status in cursor.fetchall()}


def states(live: Live, dag_run: str) -> Mapping[str, str]:
    """Task (with its map index) -> state, for messages."""
    every = patiently(lambda: live.api.task_instances("on_demand", dag_run))
    return {
        f"{t['task_id']}[{t['map_index']}]": f"{t['state']} (try {t['try_number']})" for t in every
    }


def explain(live: Live, dag_run: str, lines: int = 40) -> None:
    """Print the ends of the logs of every task that did not go well."""
    for task in patiently(lambda: live.api.task_instances("on_demand", dag_run)):
        if task["state"] in ("success", "upstream_failed", None):
            continue
        for number in range(1, int(task["try_number"]) + 1):
            words = (task["task_id"], number, task["map_index"])
            print(f"  --- {task['state']} {words}")
            for line in live.api.log_tail("on_demand", dag_run, *words, lines):
                print(f"    {line[:400]}")
