"""What each mechanism of the detector contributes: scores with one of them switched off.

    python -m tests.performance ablations [--only NAME] [--seed 11 12] [--count 144]

A mechanism is switched off by replacing functions or attributes of the detection package in every
worker process. `clear` and `real` print the columns in full.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import Any
from unittest import mock

import numpy as np
from tests.performance import clear, histories, real, scoring

from nightbench.detection.excursions import Excursions

HEAD = (
    "switched off",
    *("clear: within 3", "false", "burst: night", "false", "further: within 3", "false"),
    *("real F1", "FA", "delay", "without changes F1", "FA", "histories F1", "FA", "delay"),
)


def _no_excursions(depth: Any, distinct: float) -> Excursions:
    return Excursions(0, 0, 0, len(depth))


Patches = Mapping[str, Any]
"""What replaces each function or attribute, by its name below `nightbench.detection`."""

ABLATIONS: list[tuple[str, Patches]] = [
    ("nothing", {}),
    ("past excursions", {"evidence.past_excursions": _no_excursions}),
    ("alternative: excursion", {"odds._odds_of_excursion": lambda _: -math.inf}),
    ("alternative: scattered nights", {"odds._odds_of_scattered_nights": lambda _: -math.inf}),
    ("overlooked excursions", {"odds.OVERLOOKED": 0.0}),
    ("unsettled levels", {"odds.UNSETTLED": 0.0}),
    ("wider noise of short windows", {"evidence.UNCERTAIN": 0.0}),
    ("autocorrelation", {"evidence.variance_inflation": lambda _: 1.0}),
    ("continued drift", {"evidence.SLOPE": 1e-9}),
    ("weekday pattern", {"levels.weekday_effects": lambda *_: np.zeros(7)}),
    ("changes since a change", {"changes.RETURNED": math.inf}),
]
"""Mechanisms; patch a function where it is used, not where it is defined."""


def switch_off(number: int) -> None:
    """Apply the patches of an entry, for the rest of this process."""
    for name, new in ABLATIONS[number][1].items():
        mock.patch(f"nightbench.detection.{name}", new).start()


def row_of(number: int, clear_seed: int, seeds: list[int], count: int, processes: int) -> list[str]:
    """Return the scores with the mechanism of an entry switched off."""
    pool = scoring.worker_pool(processes, initializer=switch_off, initargs=(number,))
    with pool as workers:
        totals = clear.totals(list(clear.judge(workers, clear_seed)))
        segments, steady = real.judge(workers)
        simulated = [histories.drawn(seed, k) for seed in seeds for k in range(count)]
        score = scoring.total(workers, simulated)
    base, burst, further, _ = totals.values()
    return [
        *(f"{base.soon} of {len(base.delays)}", str(base.false)),
        *(f"{burst.night:g}", str(burst.false)),
        *(f"{further.soon} of {len(further.delays)}", str(further.false)),
        *(f"{segments.f1:.2f}", f"{segments.false_rate:.2f}", segments.delay),
        *(f"{steady.f1:.2f}", f"{steady.false_rate:.2f}"),
        *(f"{score.f1:.2f}", f"{score.false_rate:.2f}", score.delay),
    ]


def main(words: list[str]) -> int:
    """Print a table in Markdown."""
    names = [name for name, _ in ABLATIONS]
    parser = argparse.ArgumentParser(prog="python -m tests.performance ablations")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--seed", type=int, nargs="+", default=[11, 12], help="of `histories`")
    parser.add_argument("--count", type=int, default=144, help="histories of each seed")
    parser.add_argument("--clear-seed", type=int, default=5, help="of `clear` [default: 5]")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args(words)
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for number, name in enumerate(names):
        if name in given.only:
            row = row_of(number, given.clear_seed, given.seed, given.count, given.processes)
            print(f"| {' | '.join([name, *row])} |", flush=True)
    return 0
