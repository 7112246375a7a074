"""How long a night's verdicts take: many long series, on as many processes as asked.

    python -m tests.performance detector [--series 5000] [--nights 1825] [--processes 2] [--alone]

Each verdict is `ChangeDetector.judge` on the whole history of the model, the smallest slowdown
included. Histories are made in the processes, before the clock starts, in batches, so that what
is measured is the judging and the memory of it, not the making of five thousand histories.

Then two live nights, each as a task judges it, in a process and those that this one starts: every
series by itself, what they share, and what is left of each. In the first one nothing is shared; in
the second one three lines and three nodes have moved in the last weeks. `--alone` keeps each night
in one process.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from nightbench.core.model import HistoryPoint, RegressionPolicy
from nightbench.detection import ChangeDetector, change_detector
from nightbench.detection.case_verdicts import verdict_of
from nightbench.detection.change_detector import judge_nights
from nightbench.detection.changes import NIGHTS_READ
from nightbench.detection.factors import Factor, FactorKind, NightRow
from nightbench.detection.robust import Floats
from nightbench.night.shared_verdicts import find_shared

FIRST = datetime(2021, 1, 1, 2, tzinfo=UTC)
CLUSTER = Factor(FactorKind.CLUSTER, "lab")
BATCH = 50
LINES, NODES = 12, 32
MOVED = {("line", 1): 3, ("line", 4): 9, ("line", 7): 15, ("n", 2): 5, ("n", 9): 12, ("n", 20): 20}
"""Lines and nodes that fell by 3 % in the busy night -> how many nights ago."""


def history(seed: int, nights: int, fallen: int | None = None) -> list[HistoryPoint]:
    """Noise, slow nights, and a fall of 5 % on a night: three nights ago in every tenth series."""
    rng = np.random.default_rng(seed)
    sigma = rng.uniform(0.003, 0.03)
    level = np.full(nights, 100.0)
    if fallen is None and seed % 10 == 0:
        fallen = nights - 3
    if fallen is not None:
        level[fallen:] = 95.0
    slow = np.where(rng.random(nights) < 0.02, rng.exponential(0.06, nights), 0.0)
    values = level * np.exp(sigma * rng.standard_normal(nights) - slow)
    spreads = np.abs(rng.normal(2.7 * sigma, 0.3 * sigma, nights))
    return [
        HistoryPoint(
            at=FIRST + timedelta(days=night),
            value=value,
            run_id=str(night),
            n=7,
            spread=spread,
            fingerprint_id="one",
        )
        for night, (value, spread) in enumerate(zip(values.tolist(), spreads.tolist(), strict=True))
    ]


def judge(job: tuple[list[int], int]) -> tuple[float, float, Counter[str], int]:
    """Seconds by the clock and of processor time, verdicts and peak memory (KiB) of a batch."""
    seeds, nights = job
    histories = [history(seed, nights) for seed in seeds]
    detector, policy, kinds = ChangeDetector(), RegressionPolicy(), Counter[str]()
    start, busy = time.perf_counter(), time.process_time()
    for points in histories:
        kinds[detector.judge(points[:-1], points[-1], policy).kind.value] += 1
    spent, busy = time.perf_counter() - start, time.process_time() - busy
    return spent, busy, kinds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def row(seed: int, moved: Mapping[tuple[str, int], int]) -> NightRow:
    """A series of a live night, with what its line and its node moved by."""
    line, node = seed % LINES, seed // LINES % NODES
    points = history(seed, NIGHTS_READ)
    for back in (moved[key] for key in (("line", line), ("n", node)) if key in moved):
        points[-back:] = [replace(point, value=0.97 * point.value) for point in points[-back:]]
    workload = Factor(FactorKind.WORKLOAD, f"w{seed // (LINES * NODES)}")
    factors = [CLUSTER, Factor(FactorKind.LINE, f"line{line}"), workload]
    return NightRow(str(seed), points, factors, usual_nodes=[f"n{node}"])


def live_night(job: tuple[int, Mapping[tuple[str, int], int], bool]) -> str:
    """Judge a night in this process and those that it starts, and return what that took."""
    series, moved, alone = job
    if alone:
        change_detector.PROCESSES = 1
    rows = {str(seed): row(seed, moved) for seed in range(series)}
    policy, ended, most = RegressionPolicy(), threading.Event(), [memory()]
    before = most[0]

    def watch() -> None:
        while not ended.wait(0.5):
            most.append(max(most.pop(), memory()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = clocks()
    nights = ((ChangeDetector(), each.points[:-1], each.points[-1]) for each in rows.values())
    cases = [
        verdict_of(each.name, "lab", each.points[-1], judgement)
        for each, judgement in zip(rows.values(), judge_nights(nights, series, policy), strict=True)
    ]
    judged = clocks()
    found = find_shared(rows, [], cases, policy).changes
    shared = clocks()
    ended.set()
    watcher.join()
    by_itself, together = judged - start, shared - judged
    return (
        f"{len(found)} movements: each by itself {by_itself[0]:.1f} s by the clock and "
        f"{by_itself[1]:.1f} s of processor, what they share {together[0]:.1f} s and "
        f"{together[1]:.1f} s; {most[0]:.0f} MiB in all, {before:.0f} of them its histories"
    )


def clocks() -> Floats:
    """Seconds by the clock, and of processor time of this process and its ended children."""
    spent = os.times()
    return np.array([spent.elapsed, sum(spent[:4])])


def memory() -> float:
    """MiB of this process and of those that it has started, what they share counted once."""
    found = 0.0
    own = Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
    for pid in ["self", *own]:
        with contextlib.suppress(OSError, IndexError):  # it has ended
            rollup = Path("/proc", pid, "smaps_rollup").read_text()
            found += int(rollup.split("Pss:")[1].split()[0]) / 1024
    return found


def main(words: list[str]) -> int:
    """The command line; prints the figures."""
    parser = argparse.ArgumentParser(prog="tests.performance detector", description=__doc__)
    parser.add_argument("--series", type=int, default=5000)
    parser.add_argument("--nights", type=int, default=1825)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--alone", action="store_true")
    asked = parser.parse_args(words)
    seeds = list(range(asked.series))
    jobs = [(seeds[i : i + BATCH], asked.nights) for i in range(0, len(seeds), BATCH)]
    spent, busy, kinds, peak = 0.0, 0.0, Counter[str](), 0
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        for seconds, used, some, memory in pool.imap_unordered(judge, jobs):
            spent, busy, peak = spent + seconds, busy + used, max(peak, memory)
            kinds.update(some)
    print(
        f"{asked.series} series of {asked.nights} nights on {asked.processes} processes: "
        f"{spent / asked.processes:.1f} s by the clock, {busy / asked.processes:.1f} s of each "
        f"processor, {1000 * busy / asked.series:.2f} ms of processor a verdict; "
        f"{peak / 1024:.0f} MiB a process at most (with {BATCH} histories); {dict(kinds)}"
    )
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for moved in ({}, MOVED):
            job = asked.series, moved, asked.alone
            print(f"a live night, {pool.apply(live_night, (job,))}", flush=True)
    return 0
