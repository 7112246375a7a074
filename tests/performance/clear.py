"""How soon clear steps are reported, in young series and after slow nights.

    python -m tests.performance clear [--seed 5] [--count 8] [--step SIZE NOISE] [--beside CHECKOUT]

Each row is a history before a step, repeated with other noise. Delays are nights after the first
night of the step; a step that is not reported counts as night 30. The night of two steps is that
of the later report. If the level returns, every alert after the first is a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from tests.performance import scoring
from tests.performance.scoring import Event, History, alerts_of, days, score_of

SETTINGS = ((-0.05, 0.005), (-0.03, 0.003), (-0.08, 0.012))
"""Size of the step, and night-to-night noise (relative SD)."""
AFTER, SOON = 30, 3
"""Nights that are judged after a step, and nights within which it should be reported."""


@dataclass(frozen=True)
class Row:
    """Circumstances of a step."""

    name: str
    before: int = 90
    slow: tuple[tuple[int, float], ...] = ()
    """Slow nights: nights before the step, and depth in steps."""
    over_noise: float | None = None
    """Size of the step / noise, in place of the setting's size."""
    returns_after: int | None = None
    """Nights until the level returns: then one alert at most is right."""
    again_after: int | None = None
    """Nights until a second step of the same size."""


YOUNG = (8, 12, 20, 30)
BASE = (
    *(Row(f"{before} nights before", before) for before in (*YOUNG, 60, 90)),
    *(
        Row(f"a slow night {depth:g} steps deep, {gap} nights before", slow=((gap, depth),))
        for depth in (0.5, 1, 1.5, 3)
        for gap in (10, 20, 60)
    ),
    Row("three slow nights", slow=((12, 1.2), (33, 2.0), (61, 0.8))),
    BURST := Row("four slow nights in a week", slow=((40, 1.5), (38, 1.2), (37, 2.0), (34, 1.0))),
    Row("12 nights before, one of them slow", 12, ((6, 1.5),)),
)
FURTHER = (
    Row("two consecutive slow nights, 20 nights before", slow=((21, 1.0), (20, 1.0))),
    Row("three slow nights in the ten nights before", slow=((9, 1.2), (6, 2.0), (3, 0.8))),
    Row("a slow night, the night before", slow=((1, 1.5),)),
    Row("a slow night, two nights before", slow=((2, 1.5),)),
    RECOVERY := Row("the level returns after three nights", returns_after=3),
    Row("a second step 20 nights later, both reported", again_after=20),
    *(Row(f"5 times the noise, {n} nights before", n, over_noise=5) for n in YOUNG),
    *(Row(f"a second step {n} nights later, both reported", again_after=n) for n in (8, 12)),
)
ROWS = (*BASE, *FURTHER)


@dataclass(frozen=True)
class Total:
    """Counts of several rows."""

    delays: list[int]
    false: int

    @property
    def soon(self) -> int:
        """Return the number of steps reported within `SOON` nights."""
        return sum(delay <= SOON for delay in self.delays)

    @property
    def night(self) -> float:
        """Return the median night of the report."""
        return float(np.median(self.delays))

    def __str__(self) -> str:
        return (
            f"reported {sum(delay < AFTER for delay in self.delays):3d} of {len(self.delays)}, "
            f"median night {self.night:4g}, within {SOON}: {self.soon:3d}, "
            f"false alarms {self.false}"
        )


@dataclass(frozen=True)
class Result:
    """A row that was judged in one setting."""

    row: Row
    setting: tuple[float, float]
    total: Total


def history_of(row: Row, size: float, noise: float, rng: np.random.Generator) -> History:
    """Return a history in these circumstances."""
    if row.over_noise is not None:
        size = -row.over_noise * noise
    steps = [row.before, *([row.before + row.again_after] if row.again_after else [])]
    nights = steps[-1] + AFTER
    log = noise * rng.standard_normal(nights)
    for first in steps:
        log[first:] += math.log1p(size)
    ends = [*steps[1:], nights]
    if row.returns_after:
        ends = [row.before + row.returns_after]
        log[ends[0] :] -= math.log1p(size)
    for gap, depth in row.slow:
        log[row.before - gap] += depth * math.log1p(size)
    events = [Event(k, "regression", size, end) for k, end in zip(steps, ends, strict=True)]
    values = [round(float(value), 4) for value in 100 * np.exp(log)]
    return History(days(nights), values, [noise / 2] * nights, noise, events)


def _judged(job: tuple[int, tuple[float, float]], seed: int, count: int) -> Result:
    number, setting = job
    row, delays, false = ROWS[number], [], 0
    for repetition in range(count):
        rng = np.random.default_rng([seed, number, repetition])
        history = history_of(row, *setting, rng)
        alerts = alerts_of(history)
        score = score_of(history, alerts)
        every = len(score.delays) == len(history.events)
        delays.append(max(score.delays) if every else AFTER)
        false += len(alerts) - score.right if row == RECOVERY else score.false
    return Result(row, setting, Total(delays, false))


def judge(
    workers: ProcessPoolExecutor,
    seed: int = 5,
    count: int = 8,
    settings: Sequence[tuple[float, float]] = SETTINGS,
) -> Iterator[Result]:
    """Yield the result of each row in each setting."""
    jobs = [(number, setting) for setting in settings for number in range(len(ROWS))]
    return workers.map(partial(_judged, seed=seed, count=count), jobs)


def totals(results: Sequence[Result]) -> dict[str, Total]:
    """Return the totals of the base rows without the burst, the burst, and the further rows."""
    groups = {
        "base rows without the burst": [row for row in BASE if row != BURST],
        "burst of four slow nights": [BURST],
        "further rows without the recovery": [row for row in FURTHER if row != RECOVERY],
        "recovery after three nights": [RECOVERY],
    }
    return {
        name: Total(
            [delay for each in results if each.row in rows for delay in each.total.delays],
            sum(each.total.false for each in results if each.row in rows),
        )
        for name, rows in groups.items()
    }


def main(words: list[str]) -> int:
    """Print a line for each row and the totals."""
    parser = scoring.options("clear")
    parser.add_argument("--seed", type=int, default=5, help="[default: 5]")
    parser.add_argument("--count", type=int, default=8, help="repetitions [default: 8]")
    parser.add_argument(
        "--step",
        type=float,
        nargs=2,
        action="append",
        metavar=("SIZE", "NOISE"),
        help="size of the step and night-to-night noise, as in -0.05 0.005 [default: three]",
    )
    given = parser.parse_args(words)
    settings = [(size, noise) for size, noise in given.step or SETTINGS]
    results: list[Result] = []
    with scoring.worker_pool(given.processes) as workers:
        for result in judge(workers, given.seed, given.count, settings):
            if result.row == ROWS[0]:
                size, noise = result.setting
                print(f"step {size:+.1%}, noise {noise:.1%}", flush=True)
            print(f"  {result.row.name:50s} {result.total}", flush=True)
            results.append(result)
    for name, total in totals(results).items():
        print(f"{name:52s} {total}")
    return scoring.score_beside("clear", words)
