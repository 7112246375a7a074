"""What the detector's grade says of simulated series of eight kinds, and how long it takes.

python -m tests.performance grades [--series 40] [--nights 270] [--seed a b]
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from tests.performance.promises import points

from nightbench.core.model import HistoryPoint, RegressionPolicy
from nightbench.detection import ChangeDetector
from nightbench.night.detector_grade import grades_sentence, judge_synthetic


def simulated(number: int, nights: int) -> list[HistoryPoint]:
    """Return a series: of its kind, noise of .3 to 2 %, and nothing that a copy must not have."""
    rng, kind = np.random.default_rng([77, number]), number % 8
    noise = math.exp(rng.uniform(math.log(0.003), math.log(0.02)))
    logs = noise * rng.standard_normal(nights)
    if kind == 1:
        logs = noise * rng.standard_t(4, nights) / math.sqrt(2)
    if kind == 2:
        logs -= np.where(rng.random(nights) < 0.03, rng.exponential(0.06, nights), 0.0)
    if kind == 3:
        gap, slow = rng.uniform(0.015, 0.06), False
        for night in range(nights):
            slow = bool(rng.random() < 0.3) if rng.random() < 0.2 else slow
            logs[night] -= gap * slow
    if kind == 4:
        logs += 0.02 * (np.arange(nights) % 7 >= 5)
    if kind == 5:
        logs += np.linspace(0.0, -0.02, nights)
    if kind == 6:
        for night in range(1, nights):
            logs[night] = 0.4 * logs[night - 1] + math.sqrt(1 - 0.16) * logs[night]
    if kind == 7:
        logs[100:] -= 0.05
    return points(logs, 0.6 * noise)


def main(words: list[str]) -> int:
    """Print a line for each seed."""
    options = argparse.ArgumentParser(prog="python -m tests.performance grades")
    options.add_argument("--series", type=int, default=40)
    options.add_argument("--nights", type=int, default=270)
    options.add_argument("--seed", nargs="+", default=["a"])
    given = options.parse_args(words)
    histories = {f"c{k}": simulated(k, given.nights) for k in range(given.series)}
    until, detector = histories["c0"][-1].at, ChangeDetector(with_smallest=False)
    for seed in given.seed:
        start = time.process_time()
        grades = judge_synthetic(histories, until, seed, RegressionPolicy(), detector, {})
        spent = time.process_time() - start
        print(f"seed {seed}, {spent:.0f} s of processor: {grades_sentence(grades)}")
    return 0
