"""Other processes that compute on a job's GPUs, from nvidia-smi."""

from __future__ import annotations

import os
import time
from typing import Any, Sequence

from nodeside.neighbours import who
from nodeside.processes import AGENT_MARK, JOB_MARK, environ_of
from nodeside.shell import Stream, answer

INTERVAL_S = 5.0
_QUERY = "--query-compute-apps=gpu_uuid,pid,process_name,used_memory"
_FORMAT = "--format=csv,noheader,nounits"


_IDENTITIES: dict[str, str] = {}


def identities() -> dict[str, str]:
    """Return index -> UUID of this node's GPUs, read once; empty without nvidia-smi."""
    if _IDENTITIES:
        return _IDENTITIES
    text = answer(["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"])
    rows = [[word.strip() for word in line.split(",")] for line in (text or "").splitlines()]
    _IDENTITIES.update({row[0]: row[1] for row in rows if len(row) == 2})
    return _IDENTITIES


def compute_processes(devices: Sequence[str]) -> list[dict[str, Any]]:
    """Return the processes of all users that compute now on the given GPUs (indices or UUIDs).

    Returns:
        Entries as of `neighbours.who`, with `gpu`. A process that is not visible here (that of
        another container) has neither user nor, perhaps, command.
    """
    text = answer(["nvidia-smi", _QUERY, _FORMAT]) if devices else None
    if not text:
        return []
    wanted = resolve(devices)
    found = [_parse(line) for line in text.splitlines()]
    return [entry for entry in found if entry is not None and entry["gpu"] in wanted]


def resolve(devices: Sequence[str]) -> list[str]:
    """Return the UUIDs of devices (indices or UUIDs); unchanged without nvidia-smi."""
    known = identities() if devices else {}
    return [known.get(device, device) for device in devices]


def foreign(
    job_id: str | None, found: Sequence[dict[str, Any]], before_launch: bool
) -> list[dict[str, Any]]:
    """Return those of `found` that carry neither the job's mark nor its agent's.

    Args:
        job_id: the job; None: a process with any Nightbench mark is not foreign.
        found: compute processes.
        before_launch: nothing of the job runs, so that a process which is not visible here (in
            a container nvidia-smi shows the host's numbers) cannot be the job's own.
    """
    kept = []
    for entry in found:
        if not os.path.exists("/proc/{}".format(entry["pid"])):
            if before_launch:
                kept.append(entry)
            continue
        environment = environ_of(entry["pid"])
        marks = {environment.get(JOB_MARK), environment.get(AGENT_MARK)} - {None}
        if not (marks if job_id is None else job_id in marks):
            kept.append(entry)
    return kept


class ComputeWatch:
    """Foreign compute processes while a repeat runs, from one nvidia-smi that repeats itself."""

    def __init__(self, job_id: str, devices: Sequence[str]) -> None:
        self._job_id = job_id
        self._wanted = resolve(devices)
        self._stream = None
        if devices:
            loop = ["-lms", str(int(INTERVAL_S * 1000))]
            self._stream = Stream(["nvidia-smi", _QUERY, _FORMAT, *loop])
        self._seen: list[tuple[float, dict[str, Any]]] = []

    def tick(self) -> None:
        """Read new output without waiting."""
        if self._stream is None:
            return
        now_s = time.monotonic()
        found = [_parse(line) for line in self._stream.lines()]
        mine = [entry for entry in found if entry is not None and entry["gpu"] in self._wanted]
        self._seen += [(now_s, entry) for entry in foreign(self._job_id, mine, False)]

    def during(self, from_s: float, to_s: float) -> list[dict[str, Any]]:
        """Return the foreign processes seen in a span, each once."""
        found = {}
        for t_s, entry in self._seen:
            if from_s <= t_s <= to_s + INTERVAL_S:
                found[entry["pid"], entry["gpu"]] = entry
        return [found[key] for key in sorted(found)]

    def close(self) -> None:
        """End nvidia-smi."""
        if self._stream is not None:
            self._stream.close()


def _parse(line: str) -> dict[str, Any] | None:
    words = [word.strip() for word in line.split(",")]
    if len(words) < 4 or not words[1].isdigit():
        return None
    entry = who(int(words[1]))
    entry["gpu"] = words[0]
    if entry["command"] is None and not words[2].startswith("["):
        entry["command"] = words[2]
    return entry
