"""What is told at best of the simulated histories, by a judge that knows how they are made.

python -m tests.performance bound --seed 1 2 [--count 144] [--rate 0.25] [--modes | --estimated]

It knows of each history the noise of every night and its tails, how often and how far nights are
slow and what their repeats look like then, weekdays, drift, and each change but the regressions;
with `--modes` its two modes and how they stick as well, else only how many histories have some, how
far they are apart and how often visited. With `--estimated` it knows neither noise nor tails: as
any detector it takes the noise from the nights before. Of regressions it knows how many histories
have one, the sizes, and how often one ends. It does not know at which level a history lies, nor
whether, when and how far it falls. The odds that the level is a lower one are exact (the forward
filter of a hidden Markov model). The threshold is that with the given rate of false alarms on these
very histories, and every change is dated right: no detector that sees the past alone can be
expected to do better.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from collections.abc import Callable
from functools import partial

import numpy as np
from tests.performance.histories import KINDS, STEPS, drawn
from tests.performance.scoring import HORIZON, SAME, History, Score, score_of

from nightbench.detection.changes import FEWEST, LOOK_BACK
from nightbench.detection.excursions import TAILS
from nightbench.detection.levels import estimate_level
from nightbench.detection.robust import Floats, median
from nightbench.detection.series import Series, series_from

Density = Callable[[Floats], Floats]

LEVELS: Floats = np.linspace(-4, 4, 81)
"""At which a history may lie, in noises around the truth."""
FALLS: Floats = np.array([0.0, *(-math.log1p(-step) for step in STEPS)])
BEGINS, ENDS = 10 / len(KINDS) / 110 / len(STEPS), 0.15 / 22
"""A night with a regression of each size, and a night that ends one, as the histories have them."""
MODES = [
    (0.0, 0.5, False, 15.5 / 18),
    *(
        (gap, share, sticks, 2.5 / 18 / 24)
        for gap in (0.021, 0.032, 0.043, 0.054)
        for share in (0.2, 0.325, 0.45)
        for sticks in (False, True)
    ),
]
"""How far the other mode lies below, its share, whether stays last, and how likely all that is."""
YOUNG_NOISE = 0.012
"""That of a history of less than `FEWEST` nights, where it has to be estimated."""
REPEATS, SLOW_REPEATS = 0.25, np.log(np.linspace(1.5, 5, 16))
"""What the logarithm of a night's spread varies by, and where it lies on most slow nights."""


def _core(z: Floats, heavy: bool) -> Floats:
    """Density of noise of unit variance: Student's with 4 degrees of freedom, or normal."""
    if heavy:
        return 0.375 * math.sqrt(2) * (1 + z * z / 2) ** -2.5
    density: Floats = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return density


def _tails(z: Floats) -> Floats:
    """Density of Student's noise as the detector takes it."""
    unit = math.exp(math.lgamma((TAILS + 1) / 2) - math.lgamma(TAILS / 2))
    density: Floats = (1 + z * z / TAILS) ** (-(TAILS + 1) / 2) * unit / math.sqrt(TAILS * math.pi)
    return density


def _estimated(series: Series, night: int) -> tuple[float, float]:
    """Return the noise of a night by those before, and the log of its repeats over the usual."""
    if night < FEWEST:
        return YOUNG_NOISE, 0.0
    before, within = series.part(max(0, night - LOOK_BACK), night), series.within
    usual = median(within[max(0, night - 90) : night])
    around = float(np.clip(median(within[max(0, night - 3) : night + 1]) / usual, 0.5, 3.0))
    return estimate_level(before).noise * around, math.log(within[night] / usual / around)


def fallen(job: tuple[History, str]) -> Floats:
    """Return how likely it is on each night, by the nights up to it, that the level has fallen.

    With the history comes what is known of it: `modes`, `estimated` or empty.
    """
    history, given = job
    truth = history.truth
    assert truth is not None
    modes = [(*truth.modes, 1.0)] if given == "modes" else MODES
    series, _ = series_from(history.t, history.value, history.within)
    gap, share, sticks, likely = (
        np.array(column)[:, None, None] for column in zip(*modes, strict=True)
    )
    rare, depth = truth.slow
    deep = -depth * np.log1p(-(np.arange(48) + 0.5) / 48)
    shares = np.stack([1 - share, share], axis=-1)
    away = np.stack([0 * gap, gap], axis=-1)
    state = np.zeros((len(modes), len(LEVELS), len(FALLS), 2))
    state[:, :, 0] = (likely[..., None] * shares)[:, 0]
    gone = np.diff(np.array(history.t), prepend=history.t[0]) // 86400
    unit, odds = float(np.median(truth.noise)), np.zeros(len(history.t))
    for night, noise in enumerate(map(float, truth.noise)):
        repeats = float(truth.repeats[night])
        core: Density = partial(_core, heavy=truth.heavy)
        if given == "estimated":
            (noise, repeats), core = _estimated(series, night), _tails
        if night:
            low = state[:, :, 1:]
            ended = ENDS * low.sum(axis=2)
            state[:, :, 1:] = low * (1 - ENDS) + BEGINS * state[:, :, :1]
            state[:, :, 0] = state[:, :, 0] * (1 - len(STEPS) * BEGINS) + ended
            stay = np.where(sticks, 0.8 ** int(gone[night]), 0.0)[..., None]
            state = stay * state + (1 - stay) * state.sum(axis=3, keepdims=True) * shares
        off = truth.off[night] - unit * LEVELS[:, None, None] + FALLS[:, None] + away
        at = np.linspace(off.min(), off.max(), 600)
        slow = core((at[:, None] + deep) / noise).mean(axis=1)
        usual = math.exp(-0.5 * (repeats / REPEATS) ** 2)
        wide = float(np.exp(-0.5 * ((repeats - SLOW_REPEATS) / REPEATS) ** 2).mean())
        state *= (1 - rare) * usual * core(off / noise) + rare * (
            0.3 * usual + 0.7 * wide
        ) * np.interp(off, at, slow)
        state /= state.sum()
        if given != "estimated" or night >= FEWEST:
            odds[night] = state[:, :, 1:].sum()
    return odds


def told(history: History, odds: Floats, threshold: float) -> list[tuple[int, int]]:
    """Return night and date of what is told at a threshold; the date is that of the true fall."""
    alerts, waits = list[tuple[int, int]](), False
    for night, each in enumerate(odds):
        if not waits and each > threshold:
            true = [
                event.index
                for event in history.events
                if event.kind == "regression" and event.index <= night < event.until + SAME
            ]
            # Beyond all events it is a false alarm.
            alerts.append((night, true[0] if true else night + HORIZON + SAME))
        waits = each > (threshold if not waits else 0.5 * threshold)
    return alerts


def main(words: list[str]) -> int:
    """Print the score at the threshold."""
    options = argparse.ArgumentParser(prog="python -m tests.performance bound")
    options.add_argument("--seed", type=int, nargs="+", default=[1])
    options.add_argument("--count", type=int, default=144, help="histories of each seed")
    options.add_argument("--rate", type=float, default=0.25, help="false alarms in 1,000 nights")
    known = options.add_mutually_exclusive_group()
    known.add_argument("--modes", action="store_true", help="are known")
    known.add_argument("--estimated", action="store_true", help="noise is not known")
    options.add_argument("--processes", type=int, default=2)
    given = options.parse_args(words)
    histories = [drawn(seed, number) for seed in given.seed for number in range(given.count)]
    what = "modes" if given.modes else "estimated" if given.estimated else ""
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        odds = pool.map(fallen, [(each, what) for each in histories], chunksize=4)
    for threshold in 1 - np.geomspace(0.7, 1e-6, 80):
        whole = Score()
        for history, each in zip(histories, odds, strict=True):
            whole.add(score_of(history, told(history, each, float(threshold))))
        if whole.false <= given.rate / 1000 * whole.nights:
            print(f"at odds of {threshold:.4f}: {whole.line()}")
            return 0
    print("no threshold has so few false alarms")
    return 1
