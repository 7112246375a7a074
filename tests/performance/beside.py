"""The smallest fall that is told within two nights, beside a reference build and without one.

    python -m tests.performance beside [--machine 0.02] [--noise 0.004] [--before 120] [--seed 1]

The machine moves from night to night, and half of where it was stays until the next one: night and
reference have that in common. What launches differ by is each one's own. Both figures of a night
are judged, its throughput and its ratio, as a live night judges them, under the default policy.
"""

from __future__ import annotations

import argparse
import math
from datetime import UTC, datetime, timedelta

import numpy as np

from nightbench.core.model import (
    Build,
    HistoryPoint,
    MeasuredPair,
    Pair,
    PairNight,
    RegressionPolicy,
    VerdictKind,
)
from nightbench.detection import ChangeDetector
from nightbench.night.reference_verdicts import paired_series, rebased

START = datetime(2026, 1, 1, 1, tzinfo=UTC)
FALLS = (0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.07, 0.10, 0.15, 0.20, 0.30)
QUIET, LATEST = 20, 2
"""Nights without a change that are judged for false alarms; slow nights within which it counts."""
STAYS = 0.5
REFERENCE = Build("line", "cpu", "index", "1.0")


class Machine:
    """Nights of a series on a machine that moves, with their pairs."""

    def __init__(self, nights: int, given: argparse.Namespace, seed: tuple[int, ...]) -> None:
        rng = np.random.default_rng(seed)
        moves = given.machine * math.sqrt(1 - STAYS**2) * rng.standard_normal(nights)
        self.machine = np.zeros(nights)
        for night in range(nights):
            self.machine[night] = STAYS * self.machine[night - 1] * (night > 0) + moves[night]
        self.own = given.noise * rng.standard_normal((nights, given.pairs, 3))
        self.spread = np.ptp(self.own[:, :, 0], axis=1)

    def points(self, since: int, fall: float) -> tuple[list[HistoryPoint], list[HistoryPoint]]:
        """Return all nights by throughput and by ratio; those from `since` on are slower."""
        raw, beside = [], list[PairNight]()
        for night, (machine, own) in enumerate(zip(self.machine, self.own, strict=True)):
            level = 100 * math.exp(machine) * (1 - fall if night >= since else 1)
            at = START + timedelta(days=night)
            value = float(np.median(level * np.exp(own[:, 0])))
            name, n = f"night-{night}", len(own)
            raw.append(HistoryPoint(at, value, name, n, float(self.spread[night])))
            pairs = tuple(
                Pair(level * math.exp(one), 100 * math.exp(machine + other), "AB")
                for _, one, other in own
            )
            pair = MeasuredPair("case", REFERENCE, pairs=pairs)
            assert pair.ratio is not None
            assert pair.medians is not None
            usual = pair.medians[1]
            beside.append(PairNight(name, REFERENCE.build_id, pair.ratio, pair.spread, n, usual))
        return raw, paired_series(raw, rebased(beside[::-1]))[0]


def is_told(points: list[HistoryPoint]) -> bool:
    """Return whether the last night is judged as a fall."""
    judged = ChangeDetector(with_smallest=False).judge(points[:-1], points[-1], RegressionPolicy())
    return judged.kind is VerdictKind.REGRESSED


def main(words: list[str]) -> int:
    """Print both figures."""
    options = argparse.ArgumentParser(prog="python -m tests.performance beside")
    options.add_argument("--machine", type=float, default=0.02, help="what it varies by")
    options.add_argument("--noise", type=float, default=0.004, help="from launch to launch")
    options.add_argument("--before", type=int, default=120, help="nights before the fall")
    options.add_argument("--pairs", type=int, default=5, help="and repeats, of each night")
    options.add_argument("--series", type=int, default=30)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args(words)
    print(
        f"{given.series} series, {given.before} nights before; the machine varies by "
        f"{given.machine:.1%}, launches by {given.noise:.1%}; {given.pairs} repeats and pairs"
    )
    before, nights = given.before, given.before + LATEST
    every = [Machine(nights, given, (given.seed, number)) for number in range(given.series)]
    smallest: list[float | None] = [None, None]
    for fall in FALLS:
        told = [0, 0]
        for machine in every:
            for kind, points in enumerate(machine.points(before, fall)):
                told[kind] += any(is_told(points[: before + k]) for k in range(1, LATEST + 1))
        print(
            f"a fall of {fall:5.1%} is told within two nights: {told[0]:3d} of {given.series} by "
            f"throughput, {told[1]:3d} beside a reference"
        )
        for kind, number in enumerate(told):
            if number >= 0.9 * given.series and smallest[kind] is None:
                smallest[kind] = fall
    alarms = [0, 0]
    for machine in every:
        for kind, points in enumerate(machine.points(nights, 0.0)):
            alarms[kind] += sum(is_told(points[: before - k]) for k in range(QUIET))
    words = [f"{each:.1%}" if each else f"above {FALLS[-1]:.0%}" for each in smallest]
    print(f"smallest told in nine of ten: {words[0]} by throughput, {words[1]} beside a reference")
    print(f"nights judged as a fall where nothing fell, of {given.series * QUIET}: {alarms}")
    return 0
