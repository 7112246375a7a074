"""What is told of steady series when their hardware changes, and of steps that come with it."""

from __future__ import annotations

import argparse
import math
import random
from datetime import UTC, datetime, timedelta
from statistics import median

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection import ChangeDetector

START = datetime(2026, 1, 1, 1, tzinfo=UTC)
BEFORE, SINCE = (20, 120), 30
"""Nights on the old hardware, at least and at most; nights on the new."""
NOISE = (0.003, 0.03)
"""Of a series from night to night, at least and at most."""
SLOW, DEPTH = 0.03, 0.06
"""Share of slow nights, and how slow they are in the mean."""


def nights_until_told(step: float, seed: int) -> int | None:
    """Nights on new hardware until a fall is put down to it; None where none is."""
    rng = random.Random(seed)
    before = rng.randint(*BEFORE)
    noise = math.exp(rng.uniform(*map(math.log, NOISE)))
    detector = ChangeDetector(with_smallest=False)
    history: list[HistoryPoint] = []
    for night in range(before + SINCE):
        is_new = night >= before
        slow = rng.expovariate(1 / DEPTH) if rng.random() < SLOW else 0.0
        point = HistoryPoint(
            at=START + timedelta(days=night),
            value=100 * (1 - step if is_new else 1) * math.exp(rng.gauss(0, noise) - slow),
            run_id=f"night-{night}",
            n=5,
            spread=noise,
            fingerprint_id="new" if is_new else "old",
        )
        if is_new:
            judged = detector.judge(history, point, RegressionPolicy())
            turned_at = START + timedelta(days=before)
            if judged.kind is VerdictKind.REGRESSED and judged.since == turned_at:
                return night - before + 1
        history.append(point)
    return None


def main(words: list[str]) -> int:
    """Print a line for each size of step."""
    options = argparse.ArgumentParser(prog="python -m tests.performance turns")
    options.add_argument("--series", type=int, default=140)
    given = options.parse_args(words)
    print(
        f"{given.series} series, each with other hardware from one night on, {SINCE} nights of it"
    )
    for step in (0.0, 0.03, 0.05, 0.1, 0.2):
        told = [nights_until_told(step, seed) for seed in range(given.series)]
        when = [night for night in told if night is not None]
        middle = f", in the median on night {median(when):g}" if when else ""
        print(f"a step of {step:4.0%}: told in {len(when)}{middle}")
    return 0
