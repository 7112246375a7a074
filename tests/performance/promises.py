"""Promises of verdicts: false alarms, young series, 3 % by default, slowdowns, intervals, shapes.

python -m tests.performance promises [intervals] [--series 120] [--seed 1]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from statistics import median

import numpy as np

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection import ChangeDetector
from nightbench.detection.changes import changes_of_last_night
from nightbench.detection.grading import wilson
from nightbench.detection.history import HistoryReport, judge_history
from nightbench.detection.node_modes import modes_of
from nightbench.detection.robust import Floats
from nightbench.detection.series import series_from

START = datetime(2026, 1, 1, 1, tzinfo=UTC)
DAY = 86_400.0
WEEK = 7
REPEATS = 7


def report(logs: Floats) -> HistoryReport:
    """Return what `nightbench detect` says of a history of logarithms."""
    first = datetime.fromtimestamp(20_000 * DAY, UTC)
    nights = [HistoryPoint(first + timedelta(days=k), float(v)) for k, v in enumerate(np.exp(logs))]
    return judge_history("series", nights)


def points(logs: Floats, within: float) -> list[HistoryPoint]:
    """Return a history of logarithms whose nights' repeats vary by `within`."""
    return [
        HistoryPoint(
            START + timedelta(days=night), math.exp(log), f"night-{night}", REPEATS, 2.7 * within
        )
        for night, log in enumerate(logs)
    ]


def falls(logs: Floats) -> int:
    """Return the number of falls that are told."""
    return sum(change.change < 0 for change in report(logs).changes)


# --- noise in which nothing changes ---------------------------------------------------


def two_modes(rng: np.random.Generator) -> Floats:
    """Return a history of two modes."""
    return _modes(rng)[1]


def _modes(rng: np.random.Generator) -> tuple[Floats, Floats, float]:
    """Return modes, history and noise of two levels 1.5 to 6 % apart.

    Each night one in five series draws anew at which one it is.
    """
    nights, gap = int(rng.integers(90, 200)), rng.uniform(0.015, 0.06)
    share, slow = rng.uniform(0.15, 0.5), False
    modes = np.zeros(nights)
    for night in range(nights):
        slow = bool(rng.random() < share) if rng.random() < 0.2 else slow
        modes[night] = -gap * slow
    noise = math.exp(rng.uniform(math.log(0.003), math.log(0.05)))
    return modes, modes + noise * rng.standard_normal(nights), noise


def falls_by_mode(seed: int) -> tuple[int, int]:
    """Return nights and false falls of `two_modes`, where each level is that of a node."""
    modes, logs, noise = _modes(np.random.default_rng([seed, 5]))
    history = points(logs, 0.6 * noise)
    nodes = {
        point.run_id: ["n2" if mode else "n1"] for point, mode in zip(history, modes, strict=True)
    }
    detector, told = ChangeDetector(with_smallest=False, nodes=nodes), list[datetime]()
    for night in range(RegressionPolicy().min_history, len(history)):
        found = modes_of(history[: night + 1], nodes)
        *past, tonight = found.points if found else history[: night + 1]
        judged = detector.judge(past, tonight, RegressionPolicy())
        since = judged.since if judged.kind is VerdictKind.REGRESSED else None
        if since and all(abs((since - other).days) > WEEK for other in told):
            told.append(since)
    return len(history), len(told)


def slow_nights(rng: np.random.Generator) -> Floats:
    """One night in ten a fifth slower."""
    nights, noise = int(rng.integers(90, 200)), rng.uniform(0.003, 0.02)
    slow = np.where(rng.random(nights) < 0.1, math.log(0.8), 0.0)
    return slow + noise * rng.standard_normal(nights)


def steady(rng: np.random.Generator) -> Floats:
    """Noise alone."""
    nights, noise = int(rng.integers(90, 200)), rng.uniform(0.003, 0.05)
    logs: Floats = noise * rng.standard_normal(nights)
    return logs


# --- events ---------------------------------------------------------------------------


def told_after(job: tuple[int, float, float]) -> int | None:
    """Return the slow nights until a fall is told under the default policy; None: not in 14."""
    seed, fall, noise = job
    rng = np.random.default_rng([seed, round(1e4 * fall), round(1e4 * noise)])
    before = int(rng.integers(40, 100))
    logs = noise * rng.standard_normal(before + 14)
    logs[before:] += math.log1p(-fall)
    return _told(points(logs, 0.6 * noise), before)


def third_fall(job: tuple[int, int, float]) -> int | None:
    """Return the nights until a lasting fall of 6 % is told after two episodes; None: not in 40."""
    seed, stay, noise = job
    rng = np.random.default_rng([seed, stay, round(1e4 * noise)])
    before = 60 + 2 * (stay + 30)
    logs = noise * rng.standard_normal(before + 40)
    for begin in (60, 60 + stay + 30):
        logs[begin : begin + stay] += math.log1p(-0.06)
    logs[before:] += math.log1p(-0.06)
    return _told(points(logs, 0.6 * noise), before)


def young(job: tuple[int, float, float]) -> int | None:
    """Return the night, counted from a drop after 12 nights, that reports it; None: not in 14."""
    seed, fall, noise = job
    rng = np.random.default_rng([seed, 3])
    logs = noise * rng.standard_normal(26)
    logs[12:] += math.log1p(-fall)
    return _told(points(logs, 0.6 * noise), 12)


def turned(job: tuple[int, float]) -> int | None:
    """Return the nights until a step that came with new hardware is reported; None: not in 30."""
    seed, step = job
    rng = np.random.default_rng([seed, 19, round(1e4 * step)])
    before = int(rng.integers(20, 121))
    noise = math.exp(rng.uniform(math.log(0.003), math.log(0.03)))
    logs = noise * rng.standard_normal(before + 30)
    logs -= np.where(rng.random(before + 30) < 0.03, rng.exponential(0.06, before + 30), 0.0)
    logs[before:] += math.log1p(-step)
    history = [
        replace(point, fingerprint_id="new" if night >= before else "old")
        for night, point in enumerate(points(logs, 0.6 * noise))
    ]
    return _told(history, before, history[before].at)


def _told(
    history: Sequence[HistoryPoint], before: int, since: datetime | None = None
) -> int | None:
    """Return the nights until a drop is reported; with `since` one that begins then."""
    detector = ChangeDetector(with_smallest=False)
    for night in range(before, len(history)):
        judged = detector.judge(history[:night], history[night], RegressionPolicy())
        if judged.kind is VerdictKind.REGRESSED and since in (None, judged.since):
            return night - before + 1
    return None


def caught(job: tuple[int, float]) -> bool | None:
    """Return whether the minimum detectable slowdown of a series is reported within a week."""
    seed, min_change = job
    rng = np.random.default_rng([seed, 7])
    before, noise = (
        int(rng.integers(20, 150)),
        math.exp(rng.uniform(math.log(0.003), math.log(0.05))),
    )
    kind = seed % 4
    logs = noise * rng.standard_normal(before + WEEK)
    if kind == 1:
        logs = noise * rng.standard_t(4, before + WEEK) / math.sqrt(2)
    if kind == 2:
        logs -= np.where(rng.random(before + WEEK) < 0.04, rng.exponential(0.08, before + WEEK), 0)
    if kind == 3:
        logs *= np.clip(np.exp(np.cumsum(rng.normal(0, 0.08, before + WEEK))), 0.5, 3.0)
    history = points(logs, 0.6 * noise)
    policy = RegressionPolicy(min_change=min_change)
    least = ChangeDetector().judge(history[:before], history[before], policy).smallest_slowdown
    if least is None:
        return None
    logs[before:] += math.log1p(-least)
    history = points(logs, 0.6 * noise)
    detector = ChangeDetector(with_smallest=False)
    return any(
        detector.judge(history[:night], history[night], policy).kind is VerdictKind.REGRESSED
        for night in range(before, before + WEEK)
    )


def held(seed: int) -> list[tuple[str, float, bool]]:
    """Return on which night of a fall its interval held it: when told, on its 7th, 14th and 20th.

    Each with the fall's size over the noise. Half of the histories have noise of heavy tails, half
    have slow nights, half a noise that wanders, half neighbouring nights that resemble each other.
    """
    rng = np.random.default_rng([seed, 17])
    before, since = int(rng.integers(25, 150)), 20
    nights = before + since
    noise = math.exp(rng.uniform(math.log(0.003), math.log(0.05)))
    fall = float(rng.choice([0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2]))
    draws = rng.standard_t(4, nights) / math.sqrt(2) if seed % 2 else rng.standard_normal(nights)
    if seed // 2 % 2:
        draws *= np.clip(np.exp(np.cumsum(rng.normal(0, 0.08, nights))), 0.5, 3.0)
    if seed // 4 % 2:
        for night in range(1, nights):
            draws[night] = 0.3 * draws[night - 1] + math.sqrt(1 - 0.09) * draws[night]
    logs = noise * draws
    if seed // 8 % 2:
        logs -= np.where(rng.random(nights) < 0.03, rng.exponential(0.08, nights), 0.0)
    logs[before:] += math.log1p(-fall)
    within = 0.6 * noise * np.exp(rng.normal(0, 0.25, nights))
    series, _ = series_from(DAY * (20_000 + np.arange(nights)), np.exp(logs), within)
    found: list[tuple[str, float, bool]] = []
    for night in range(2, since + 1):
        if found and night not in (7, 14, since):
            continue
        for change in changes_of_last_night(series.part(0, before + night)):
            if change.is_drop and abs(change.first - before) <= 3:
                is_held = change.low <= -fall <= change.high
                if not found:
                    found.append(("told", fall / noise, is_held))
                if night in (7, 14, since):
                    found.append((f"{night}th night", fall / noise, is_held))
    return found


def creep(job: tuple[int, float]) -> tuple[float, int] | None:
    """Return by how much a creep of 9.5 % is missed, in size and in nights of its beginning."""
    seed, noise = job
    rng = np.random.default_rng([seed, 11])
    flat, rate = int(rng.integers(20, 100)), float(rng.choice([0.0005, 0.001]))
    logs = noise * rng.standard_normal(flat + round(0.1 / rate))
    logs[flat:] -= rate * np.arange(1, len(logs) - flat + 1)
    drift = report(logs).drift
    return None if drift is None else (drift.change - math.expm1(-0.1), drift.first - flat)


def two_falls(job: tuple[int, float]) -> float:
    """Return how far all that is told of two falls five nights apart is from their whole size."""
    seed, noise = job
    rng = np.random.default_rng([seed, 13])
    logs = noise * rng.standard_normal(85)
    logs[60:] += math.log1p(-rng.uniform(0.04, 0.1))
    logs[65:] += math.log1p(-rng.uniform(0.04, 0.1))
    whole = float(np.mean(logs[70:]) - np.mean(logs[:60]))
    told = sum(math.log1p(change.change) for change in report(logs).changes if change.change < 0)
    return told - whole


def false_alarms(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each kind of noise in which nothing changes."""
    for make in (steady, two_modes, slow_nights):
        histories = [make(np.random.default_rng([each, 5])) for each in seeds]
        nights, false = sum(map(len, histories)), sum(pool.map(falls, histories, chunksize=4))
        share = 1000 * false / nights
        yield f"{make.__name__}: {false} false falls in {nights} nights, {share:.2f} in 1,000"
    found = list(pool.map(falls_by_mode, seeds, chunksize=4))
    nights, false = (sum(each[k] for each in found) for k in (0, 1))
    yield (
        f"two modes, each that of a node: {false} false falls in {nights} nights, "
        f"{1000 * false / nights:.2f} in 1,000"
    )


def young_series(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each drop and noise after 12 nights; a drop of 0 is a false alarm."""
    for fall, noise in ((0.05, 0.005), (0.05, 0.01), (0.05, 0.02), (0.03, 0.01), (0.0, 0.01)):
        jobs = [(each, fall, noise) for each in seeds]
        told = [n for n in pool.map(young, jobs, chunksize=4) if n is not None]
        soon = sum(night <= 3 for night in told)
        yield (
            f"a drop of {fall:.0%} after 12 nights with {noise:.1%} noise: {soon} of {len(jobs)} "
            f"reported on the third night or before, {len(told)} within 14"
        )


def detected_by_default(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each fall and noise, under the default policy."""
    for noise in (0.003, 0.005, 0.01, 0.02):
        for fall in (0.03, 0.05):
            jobs = [(each, fall, noise) for each in seeds]
            told = [n for n in pool.map(told_after, jobs, chunksize=4) if n is not None]
            when = f", the median on night {median(told):g}" if told else ""
            yield (
                f"a fall of {fall:.0%} where nights vary by {noise:.1%}: "
                f"{len(told)} of {len(jobs)} told within 14 nights{when}"
            )


def hardware(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each step that comes with new hardware; a step of 0 is a false alarm."""
    for step in (0.0, 0.03, 0.05, 0.1, 0.2):
        jobs = [(each, step) for each in seeds]
        told = [n for n in pool.map(turned, jobs, chunksize=4) if n is not None]
        when = f", the median on night {median(told):g}" if told else ""
        yield (
            f"a step of {step:.0%} with new hardware: {len(told)} of {len(jobs)} reported within "
            f"30 nights{when}"
        )


def episodes(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each length of two episodes, before a fall that lasts."""
    for noise in (0.003, 0.01):
        for stay in (7, 10, 14):
            jobs = [(each, stay, noise) for each in seeds]
            told = [n for n in pool.map(third_fall, jobs, chunksize=4) if n is not None]
            when = f", the median on night {median(told):g}" if told else ""
            yield (
                f"-6 % for {stay} nights, twice, then for good, where nights vary by {noise:.1%}: "
                f"{len(told)} of {len(jobs)} told within 40 nights{when}"
            )


def minimum_slowdown(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each policy: how often a fall that is "caught" is told within a week."""
    for least in (0.0, 0.03):
        found = pool.map(caught, [(each, least) for each in seeds], chunksize=4)
        known = [hit for hit in found if hit is not None]
        low, high = wilson(sum(known), len(known))
        yield (
            f"minimum detectable slowdown, min_change {least:.0%}: {sum(known)} of {len(known)} "
            f"reported within a week, {sum(known) / len(known):.0%} ({low:.0%} to {high:.0%})"
        )


def intervals(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each night and size: how often the 90 % interval of a fall holds it."""
    found = list(chain.from_iterable(pool.map(held, seeds, chunksize=8)))
    for night in ("told", "7th night", "14th night", "20th night"):
        parts = []
        for least, most in ((0, math.inf), (0, 2), (2, 4), (4, 8), (8, math.inf)):
            hits = [hit for when, size, hit in found if when == night and least <= size < most]
            low, high = wilson(sum(hits), len(hits))
            name = "all" if (least, most) == (0, math.inf) else f"{least} to {most:g} noise"
            share = sum(hits) / max(len(hits), 1)
            parts.append(f"{name}: {share:.0%} of {len(hits)} ({low:.0%} to {high:.0%})")
        yield f"90 % intervals, {night}: {'; '.join(parts)}"


def shapes(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Iterator[str]:
    """Yield lines for creeps and for two falls."""
    for noise in (0.003, 0.01):
        jobs = [(each, noise) for each in seeds]
        missed = [each for each in pool.map(creep, jobs, chunksize=4) if each is not None]
        size, begin = (median(abs(each[k]) for each in missed) for k in (0, 1))
        yield (
            f"a creep of 9.5 % where nights vary by {noise:.1%}: {len(missed)} of {len(jobs)} "
            f"reported, in the median {size:.2%} and {begin:g} nights off"
        )
        near = sum(abs(each) < 0.02 for each in pool.map(two_falls, jobs, chunksize=4))
        yield (
            f"two falls five nights apart where nights vary by {noise:.1%}: {near} of {len(jobs)} "
            "told with their whole size, within 2 points"
        )


PROMISES = {
    "false_alarms": (false_alarms, 1),
    "young": (young_series, 1),
    "detected_by_default": (detected_by_default, 1),
    "hardware": (hardware, 1),
    "episodes": (episodes, 1),
    "minimum_slowdown": (minimum_slowdown, 3),
    "intervals": (intervals, 5),
    "shapes": (shapes, 1),
}
"""Each with its number of series, in those of the command line."""


def main(words: list[str]) -> int:
    """Print a line for each promise."""
    options = argparse.ArgumentParser(prog="python -m tests.performance promises")
    options.add_argument("promise", nargs="?", choices=PROMISES, help="[default: all]")
    options.add_argument("--series", type=int, default=120, help="of each kind")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args(words)
    with ProcessPoolExecutor() as pool:
        for name, (promise, more) in PROMISES.items():
            if given.promise not in (None, name):
                continue
            first = 100_000 * given.seed
            for line in promise(pool, range(first, first + more * given.series)):
                print(line, flush=True)
    return 0
