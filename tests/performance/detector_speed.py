"""How long a night's verdicts take: many long series, on as many processes as asked.

    python tests/performance/detector_speed.py --series 5000 --nights 1825 --processes 2

Each verdict is `ChangeDetector.judge` on the whole history of the model, the smallest slowdown
included. Histories are made in the processes, before the clock starts, in batches, so that what
is measured is the judging and the memory of it, not the making of five thousand histories.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plugins"))

from nightbench.detection import ChangeDetector
from nightbench.model import HistoryPoint, RegressionPolicy

FIRST = datetime(2021, 1, 1, 2, tzinfo=UTC)
BATCH = 50


def history(seed: int, nights: int) -> list[HistoryPoint]:
    """Noise, slow nights, and in every tenth series a fall of 5 % three nights ago."""
    rng = random.Random(seed)
    sigma = rng.uniform(0.003, 0.03)
    points = []
    for night in range(nights):
        level = 95.0 if seed % 10 == 0 and night >= nights - 3 else 100.0
        slow = rng.expovariate(1 / 0.06) if rng.random() < 0.02 else 0.0
        points.append(
            HistoryPoint(
                at=FIRST + timedelta(days=night),
                value=level * (1 + rng.gauss(0, sigma)) * (1 - min(slow, 0.5)),
                run_id=str(night),
                n=7,
                spread=abs(rng.gauss(2.7 * sigma, 0.3 * sigma)),
                fingerprint_id="one",
            )
        )
    return points


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


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=5000)
    parser.add_argument("--nights", type=int, default=1825)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
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


if __name__ == "__main__":
    main()
