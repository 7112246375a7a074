"""The verb `sweep`: lists and ends processes of Nightbench, found by their marks alone."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from nodeside import containers
from nodeside.processes import (
    AGENT_MARK,
    AGENT_NODE,
    JOB_MARK,
    NODE_MARK,
    command_of,
    end_all,
    environ_of,
    is_running,
    kill_all,
    pids,
    send,
)


def sweep(
    job: str | None, kill: bool, root: str | None = None, patience_s: float = 15.0
) -> dict[str, Any]:
    """List marked processes; end them with `kill`.

    Args:
        job: all processes of jobs whose id is this or begins with it as whole path parts
            (a run id names all jobs of the run), agents too. None: only ranks whose agent
            has gone.
        kill: end what was found. Agents get SIGTERM and time to leave their node clean.
        root: `environments.root`, below which engines of containers are known.
        patience_s: time in which agents must end by themselves.

    Returns:
        {"found": [{"pid", "job", "node", "cmd"}], "killed": [pid]}.
    """
    found = _find(job)
    document: dict[str, Any] = {"found": found, "killed": []}
    if not kill:
        return document
    agents = [entry["pid"] for entry in found if AGENT_MARK in environ_of(entry["pid"])]
    for pid in agents:
        send(pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while any(is_running(pid) for pid in agents) and time.monotonic() < deadline:
        time.sleep(0.1)
    _, stuck = end_all(lambda: [entry["pid"] for entry in _find(job)], kill_all)
    if root is not None:
        for each in [job] if job is not None else sorted({entry["job"] for entry in found}):
            containers.remove_below(root, each)
    document["killed"] = [entry["pid"] for entry in found if entry["pid"] not in stuck]
    if stuck:
        document["left"] = sorted(stuck)
    return document


def _find(job: str | None) -> list[dict[str, Any]]:
    ranks, agents = [], {}
    for pid in pids():
        if pid == os.getpid():
            continue
        environment = environ_of(pid)
        mark = environment.get(JOB_MARK) or environment.get(AGENT_MARK)
        if mark is None or not is_running(pid):
            continue
        entry = {
            "pid": pid,
            "job": mark,
            "node": environment.get(NODE_MARK) or environment.get(AGENT_NODE),
            "cmd": " ".join(command_of(pid)).strip()[:300],
        }
        if AGENT_MARK in environment:
            agents[pid] = entry
        else:
            ranks.append(entry)
    if job is not None:
        wanted = job.rstrip("/")
        everything = ranks + list(agents.values())
        return [
            entry
            for entry in everything
            if entry["job"] == wanted or str(entry["job"]).startswith(wanted + "/")
        ]
    served = {(entry["job"], entry["node"]) for entry in agents.values()}
    return [entry for entry in ranks if (entry["job"], entry["node"]) not in served]
