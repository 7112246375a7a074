"""Foreign work on the cores of a job: how much, and by which processes.

Once a second, the cores' busy time is compared with that of the agent and its processes, which
reads two or three small files. All processes of the node are scanned only if the rest exceeds the
policy's limit, at most every few seconds: the agent itself runs on a measured core.
"""

from __future__ import annotations

import bisect
import math
import os
import pwd
import time
from typing import Any, NamedTuple, Sequence

from nodeside.cputime import (
    TICKS_PER_S,
    Scan,
    core_count,
    core_ticks,
    descendants,
    own_ticks,
    scan,
)
from nodeside.processes import command_of, is_marked

SAMPLE_S = 1.0
SPAN_S = 5.0
"""Length of the spans in which foreign work is measured."""
SCAN_VALID_S = 30.0
"""Time for which the result of a scan is assumed to be valid."""
MAX_SHOWN = 5
"""Number of processes that are reported."""
COMMAND_LENGTH = 200
UNSEEN = "processes that end too soon to be seen, or that another container hides"


class Sample(NamedTuple):
    """Cumulative ticks at one moment."""

    t_s: float
    busy: float
    own: float


class ProcessScan(NamedTuple):
    """CPU time between two scans of all processes, in ticks."""

    from_s: float
    to_s: float
    harmless: float
    """CPU time of kernel threads, and of processes of the job that `Sample.own` does not count."""
    foreign: dict[int, float]
    """pid -> ticks on the job's cores."""

    def overlap_s(self, from_s: float, to_s: float) -> float:
        """Return the length of the overlap with a span, s."""
        return max(0.0, min(self.to_s, to_s) - max(self.from_s, from_s))


class Share(NamedTuple):
    """Foreign CPU time of a span / CPU time of its cores."""

    share: float
    doubt: float
    """The part of `share` that may be an error of rounding to ticks."""
    named: float
    """The part of `share` that identified processes used."""
    from_s: float
    to_s: float

    def exceeds(self, limit: float) -> bool:
        """Return whether the share exceeds `limit` beyond doubt."""
        return max(self.share - self.doubt, min(self.share, self.named)) > limit


class CpuMeter:
    """Measures foreign work on some cores from its creation on.

    Args:
        cpus: the cores; all of the node when empty.
        job_id: its processes are not foreign; None: no process with a Nightbench mark is foreign.
        limit: share above which the processes are identified.
    """

    def __init__(self, cpus: Sequence[int], job_id: str | None, limit: float) -> None:
        self._cpus = tuple(cpus)
        self._cores = core_count(self._cpus)
        self._job_id = job_id
        self._limit = limit
        self._kinds: dict[tuple[int, int], bool] = {}
        self._launched: tuple[int, ...] = ()
        self._names: dict[int, dict[str, Any]] = {}
        self.samples: list[Sample] = []
        self.scans: list[ProcessScan] = []
        self._sample()
        self._last: Scan = scan()

    # --- measuring -----------------------------------------------------------------------

    def watch(self, launched: Sequence[int]) -> None:
        """Set the job's running processes; none when the repeat has ended."""
        self._launched = tuple(launched)
        if launched:
            # Old samples are dropped; those of the last window are needed later.
            self.samples = [s for s in self.samples if s.t_s > time.monotonic() - SCAN_VALID_S]
            self.scans = [x for x in self.scans if x.to_s > time.monotonic() - SCAN_VALID_S]

    def tick(self, now_s: float, at_once: bool = False) -> None:
        """Take a sample at its time; scan the processes if there is much foreign work."""
        if now_s - self.samples[-1].t_s < SAMPLE_S and not at_once:
            return
        before = self.samples[-1]
        self._sample()
        if not self._launched:
            return  # between repeats there is nothing to disturb
        share = self.share(before.t_s, self.samples[-1].t_s)
        age_s = self.samples[-1].t_s - self._last.t_s
        exceeded = share.exceeds(self._limit) and age_s >= SPAN_S
        stale = age_s >= SCAN_VALID_S and self._unexplained(before) > self._limit
        if exceeded or stale:
            self.scan_processes()

    def _unexplained(self, before: Sample) -> float:
        """Return the CPU share in the last sample that the agent and its processes did not use."""
        last = self.samples[-1]
        room = (last.t_s - before.t_s) * TICKS_PER_S * self._cores
        return (last.busy - before.busy - last.own + before.own) / room if room > 0 else 0.0

    def _sample(self) -> None:
        now_s = time.monotonic()
        self.samples.append(Sample(now_s, core_ticks(self._cpus), own_ticks(self._launched)))
        if not self._launched and len(self.samples) > 4 * SCAN_VALID_S:
            del self.samples[: int(2 * SCAN_VALID_S)]  # the time before a launch is not needed

    def scan_processes(self) -> ProcessScan:
        """Scan all processes of the host; return what they used since the last scan."""
        self._sample()
        before, now = self._last, scan()
        mine = descendants(now.processes, os.getpid())
        mine_before = descendants(before.processes, os.getpid())
        # The time of an ended process moves to its waiting parent: the family's sum stays.
        family = sum(p.with_children for pid, p in now.processes.items() if pid in mine)
        family -= sum(p.with_children for pid, p in before.processes.items() if pid in mine_before)
        direct = self._own_at(now.t_s) - self._own_at(before.t_s)
        harmless = max(0.0, family - direct)
        foreign = {}
        for pid, seen in now.processes.items():
            known = before.processes.get(pid)
            spent = seen.ticks
            if known is not None and known.started == seen.started:
                spent -= known.ticks
            if spent <= 0 or pid in mine or (self._cpus and seen.core not in self._cpus):
                continue
            if seen.kernel_thread or self._is_ours(pid, seen.started):
                harmless += spent
            else:
                foreign[pid] = spent
                if pid not in self._names:  # described while it exists
                    self._names[pid] = describe_process(pid)
        self._last = now
        found = ProcessScan(before.t_s, now.t_s, harmless, foreign)
        self.scans.append(found)
        return found

    def _own_at(self, t_s: float) -> float:
        """Return `Sample.own` of the sample nearest to a moment; each scan takes a sample."""
        place = self._place(t_s)
        near = self.samples[max(0, place - 1) : place + 1]
        return min(near, key=lambda sample: abs(sample.t_s - t_s)).own

    def _is_ours(self, pid: int, started: int) -> bool:
        key = (pid, started)
        if key not in self._kinds:
            self._kinds[key] = is_marked(pid, self._job_id)
        return self._kinds[key]

    # --- judging -------------------------------------------------------------------------

    def share(self, from_s: float, to_s: float) -> Share:
        """Return the foreign share between the samples that enclose a span."""
        first = self._sample_before(from_s)
        last = self.samples[min(self._place(to_s), len(self.samples) - 1)]
        room = (last.t_s - first.t_s) * TICKS_PER_S * self._cores
        if room <= 0:
            return Share(0.0, 1.0, 0.0, first.t_s, last.t_s)
        own = max(0.0, last.own - first.own)
        harmless = named = 0.0
        for scanned in self.scans:
            part = scanned.overlap_s(first.t_s, last.t_s)
            if part > 0:
                part /= scanned.to_s - scanned.from_s
                harmless += part * scanned.harmless
                named += part * sum(scanned.foreign.values())
        if self._launched and self.scans and last.t_s > self.scans[-1].to_s:
            # Not scanned yet: assumed to continue unchanged while the job runs.
            newest = self.scans[-1]
            since_s = last.t_s - max(newest.to_s, first.t_s)
            harmless += newest.harmless * since_s / (newest.to_s - newest.from_s)
        foreign = last.busy - first.busy - own - harmless
        used = min(1.0, (own + harmless) / room)
        doubt = 3.0 * math.sqrt(used * (1.0 - used) / room)
        share = min(1.0, max(0.0, foreign / room))
        return Share(share, doubt, named / room, first.t_s, last.t_s)

    def _place(self, t_s: float) -> int:
        """Return the index of the first sample at or after a moment."""
        return bisect.bisect_left(self.samples, (t_s,))

    def _sample_before(self, t_s: float) -> Sample:
        place = self._place(t_s)
        if place < len(self.samples) and self.samples[place].t_s == t_s:
            return self.samples[place]
        return self.samples[max(0, place - 1)]

    def worst(self, from_s: float, to_s: float) -> Share:
        """Return the span of `SPAN_S`, or the whole window, with the largest foreign share."""
        if to_s - from_s <= SPAN_S:
            return self.share(from_s, to_s)
        starts = [s.t_s for s in self.samples if from_s <= s.t_s <= to_s - SPAN_S] or [from_s]
        spans = [self.share(start, start + SPAN_S) for start in starts]
        spans.append(self.share(to_s - SPAN_S, to_s))
        # Certain shares come before those that may be rounding.
        return max(spans, key=lambda span: (span.exceeds(self._limit), span.share))

    def foreign_processes(self, from_s: float, to_s: float) -> list[dict[str, Any]]:
        """Return the foreign processes of a span as result.json has them, the busiest first."""
        spent: dict[int, float] = {}
        for scanned in self.scans:
            part = scanned.overlap_s(from_s, to_s)
            if part > 0:
                for pid, ticks in scanned.foreign.items():
                    rate = ticks / (scanned.to_s - scanned.from_s)
                    spent[pid] = spent.get(pid, 0.0) + rate * part
        room = max(1e-9, (to_s - from_s) * TICKS_PER_S * self._cores)
        shares = {pid: ticks / room for pid, ticks in spent.items()}
        least = min(0.02, self._limit / 4)
        named = sorted((pid for pid in shares if shares[pid] >= least), key=lambda p: -shares[p])
        return [
            dict(self._names[pid], cpu_share=round(shares[pid], 3)) for pid in named[:MAX_SHOWN]
        ]


def describe_process(pid: int) -> dict[str, Any]:
    """Return pid, user and command of a process; `cpu_share` and `gpu` are None."""
    user: str | None = None
    command: str | None = None
    try:
        uid = os.stat("/proc/{}".format(pid)).st_uid
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = str(uid)
        command = " ".join(command_of(pid)).strip()[:COMMAND_LENGTH]
        if not command:
            with open("/proc/{}/comm".format(pid)) as handle:
                command = "[{}]".format(handle.read().strip())
    except OSError:
        pass  # the process has ended meanwhile: return what is known
    return {"pid": pid, "user": user, "command": command, "cpu_share": None, "gpu": None}


def describe_processes(processes: Sequence[dict[str, Any]]) -> str:
    """Return the processes as text: `make -j64 (pid 4711, user anna, 48 %)`."""
    parts = []
    for entry in processes:
        details = ["pid {}".format(entry["pid"])]
        if entry["user"]:
            details.append("user {}".format(entry["user"]))
        if entry["cpu_share"] is not None:
            details.append("{:.0%} of the cores".format(entry["cpu_share"]))
        if entry["gpu"]:
            details.append("on {}".format(entry["gpu"]))
        command = entry["command"] or "a process"
        parts.append("{} ({})".format(command[:80], ", ".join(details)))
    return "; ".join(parts)
