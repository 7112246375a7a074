"""CPU time by process, from /proc; in clock ticks (`TICKS_PER_S`) unless another unit is named."""

from __future__ import annotations

import os
import time
from typing import NamedTuple, Sequence

from nodeside.processes import pids, stat_of

TICKS_PER_S = float(os.sysconf("SC_CLK_TCK"))
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the flags of /proc/PID/stat."""


class ProcessTime(NamedTuple):
    """One process at one moment."""

    started: int
    """Start in ticks since boot: it distinguishes processes that had the same pid."""
    ticks: float
    """User and system time of the process."""
    with_children: float
    """User and system time, including that of children for which it has waited."""
    parent: int
    kernel_thread: bool
    core: int
    """The core on which it ran last."""


class Scan(NamedTuple):
    """All processes of the host at one moment; taking it costs some milliseconds."""

    t_s: float
    processes: dict[int, ProcessTime]


def core_count(cpus: Sequence[int]) -> int:
    """Return the number of cores: the named ones, otherwise all of the host."""
    return len(cpus) or os.cpu_count() or 1


def core_ticks(cpus: Sequence[int]) -> float:
    """Return the time that the cores spent on programs and kernel threads since boot.

    Interrupts are left out: on a node that sends gradients they are the job's own.
    """
    wanted = {b"cpu%d" % number for number in cpus} or {b"cpu"}
    busy = 0.0
    with open("/proc/stat", "rb") as handle:
        for line in handle:
            words = line.split()
            if words[0] in wanted:
                busy += float(words[1]) + float(words[2]) + float(words[3])
            elif not words[0].startswith(b"cpu"):
                break
    return busy


def process_time(pid: int) -> ProcessTime | None:
    """Return a process as /proc shows it; None when it is gone."""
    words = stat_of(pid)
    if len(words) < 37:
        return None
    own = float(words[11]) + float(words[12])
    return ProcessTime(
        started=int(words[19]),
        ticks=own,
        with_children=own + float(words[13]) + float(words[14]),
        parent=int(words[1]),
        kernel_thread=bool(int(words[6]) & _KERNEL_THREAD),
        core=int(words[36]),
    )


def scan() -> Scan:
    """Read every process."""
    found = {}
    for pid in pids():
        seen = process_time(pid)
        if seen is not None:
            found[pid] = seen
    return Scan(time.monotonic(), found)


def own_ticks(launched: Sequence[int]) -> float:
    """Return the time of this process, of the children it has waited for, and of running ones.

    One read for each of `launched`; their children count once they have been waited for.
    """
    times = os.times()
    total = sum(times[:4]) * TICKS_PER_S
    for pid in launched:
        seen = process_time(pid)
        if seen is not None:
            total += seen.with_children
    return total


def descendants(processes: dict[int, ProcessTime], ancestor: int) -> set[int]:
    """Return the descendants of `ancestor`, and itself."""
    children: dict[int, list[int]] = {}
    for pid, seen in processes.items():
        children.setdefault(seen.parent, []).append(pid)
    found, left = set(), [ancestor]
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left.extend(children.get(pid, ()))
    return found
