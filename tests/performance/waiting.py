"""How many slow nights pass until a fall is told: alone, with a new version, with a new driver."""

from __future__ import annotations

import argparse
import math
import random
from datetime import UTC, datetime, timedelta

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection import ChangeDetector

START = datetime(2026, 1, 1, 1, tzinfo=UTC)


def nights_until_told(
    before: int, fall: float, noise: float, beside: str, seed: int, most: int
) -> int | None:
    """Slow nights until the verdict says regressed; None where `most` did not do."""
    rng = random.Random(seed)
    detector = ChangeDetector(with_smallest=False)
    history: list[HistoryPoint] = []
    for night in range(before + most):
        is_slow = night >= before
        point = HistoryPoint(
            at=START + timedelta(days=night),
            value=100 * (1 - fall if is_slow else 1) * math.exp(rng.gauss(0, noise)),
            run_id=f"night-{night}",
            n=5,
            spread=0.004,
            framework_version="2" if is_slow and beside == "version" else "1",
            fingerprint_id="new" if is_slow and beside == "driver" else "old",
        )
        if is_slow:
            judged = detector.judge(history, point, RegressionPolicy())
            if judged.kind is VerdictKind.REGRESSED:
                return night - before + 1
        history.append(point)
    return None


def main(words: list[str]) -> int:
    """Print the table."""
    options = argparse.ArgumentParser(prog="python -m tests.performance waiting")
    options.add_argument("--fall", type=float, default=0.05, help="of the throughput")
    options.add_argument("--noise", type=float, default=0.003, help="from night to night")
    options.add_argument("--most", type=int, default=10, help="slow nights")
    options.add_argument("--seeds", type=int, default=4)
    given = options.parse_args(words)
    print(
        f"a fall of {given.fall:.0%}, nights that vary by {given.noise:.1%}, slow nights until told"
    )
    for before in (12, 17, 30, 60, 120):
        for beside in ("", "version", "driver"):
            told = [
                nights_until_told(before, given.fall, given.noise, beside, seed, given.most)
                for seed in range(given.seeds)
            ]
            said = ", ".join("not" if each is None else str(each) for each in told)
            print(f"{before:4d} nights before, {f'a new {beside}' if beside else 'alone'}: {said}")
    return 0
