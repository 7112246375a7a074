"""Who used how much CPU time, from /proc. Times are clock ticks (`TICKS_PER_S`) unless named."""

from __future__ import annotations

import os
import time
from typing import NamedTuple, Sequence

from nodeside.processes import pids

TICKS_PER_S = float(os.sysconf("SC_CLK_TCK"))
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the flags of /proc/PID/stat."""


class ProcessTime(NamedTuple):
    """One process at one moment."""

    started: int
    """Start in ticks since boot: with it a number that came round again is another process."""
    ticks: float
    """User and system time of its own."""
    with_children: float
    """The same with that of the children it has waited for."""
    parent: int
    kernel_thread: bool
    core: int
    """Where it ran last."""


class Scan(NamedTuple):
    """All processes of the machine at one moment: some milliseconds of work."""

    t_s: float
    processes: dict[int, ProcessTime]


def core_count(cpus: Sequence[int]) -> int:
    """How many cores are looked at: those named, otherwise all of the machine."""
    return len(cpus) or os.cpu_count() or 1


def core_ticks(cpus: Sequence[int]) -> float:
    """Time that the cores gave to programs and kernel threads since boot.

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
    """What /proc says of a process; None where it is gone."""
    try:
        descriptor = os.open("/proc/{}/stat".format(pid), os.O_RDONLY)
    except OSError:
        return None
    try:
        words = os.read(descriptor, 4096).rpartition(b")")[2].split()
    except OSError:
        return None
    finally:
        os.close(descriptor)
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
    """Look at every process."""
    found = {}
    for pid in pids():
        seen = process_time(pid)
        if seen is not None:
            found[pid] = seen
    return Scan(time.monotonic(), found)


def own_ticks(launched: Sequence[int]) -> float:
    """Time of this process, of the children it has waited for, and of running ones.

    Cheap: one read for each of `launched`. Their own children count once they were waited for.
    """
    times = os.times()
    total = sum(times[:4]) * TICKS_PER_S
    for pid in launched:
        seen = process_time(pid)
        if seen is not None:
            total += seen.with_children
    return total


def descendants(processes: dict[int, ProcessTime], ancestor: int) -> set[int]:
    """Processes that come from `ancestor`, itself included."""
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
