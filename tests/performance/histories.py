"""How good the detector is: simulated histories, judged night by night and scored.

python -m tests.performance histories --seed 1 2 [--count 144] [--beside CHECKOUT] [--file F.jsonl]

A detector sees the past alone. The default policy is that of `nightbench detect --min-change 1%`.
`--beside` scores another checkout's detector on the same histories in the same run. A file has a
history a line, with the keys of `History`; nights that are missing are left out of it.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nightbench.detection.followers import Follower
from nightbench.detection.robust import Floats
from nightbench.detection.series import series_from

POLICIES = {"every change": 0.0, "default policy": 0.01}
SIZES = ((0, 2), (2, 4), (4, 8), (8, math.inf))
"""Of a fall, over the noise from night to night."""
SAME, EARLY, LATE, HORIZON, LASTING, BEFORE = 7, 5, 7, 30, 10, 15
"""Nights: between alerts of one change; by which an alert may date an event too early or too late;
until it must be told; that it must last to count in recall; that a level before is taken from."""
KINDS = (
    *("stable", "hetero", "outliers", "missing", "bimodal", "drift", "weekly", "step", "step"),
    *("step_recover", "step_outliers", "step_missing", "step_bimodal", "step_weekly"),
    *("step_hetero", "hardware", "warmstart", "mixed"),
)
STEPS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.10, 0.15, 0.20)
FIRST = 1_700_000_000 // 86400 * 86400 + 7200


@dataclass
class Event:
    """A change of the true level; `until` is the first night where the new level ends."""

    index: int
    kind: str
    """regression, recovery, improvement, or hardware: intended, told or not."""
    rel: float
    until: int


@dataclass
class History:
    """Observed nights of a series, and what really happened."""

    t: list[int]
    value: list[float]
    within: list[float]
    """Relative standard deviation of each night's repeats."""
    sigma: float
    """From night to night."""
    events: list[Event]
    truth: Truth | None = None


@dataclass
class Truth:
    """What a history was drawn from, for `bound`; a value a night where it is an array."""

    off: Floats
    """Distance from the level that would be without regressions, weekdays and drift taken out."""
    noise: Floats
    heavy: bool
    slow: tuple[float, float]
    """Share and mean depth of slow nights."""
    modes: tuple[float, float, bool]
    """How far the other mode lies below, its share, and whether a night in five draws anew."""
    repeats: Floats
    """Logarithm of what a night's repeats vary by, over the usual."""


class _Maker:
    """Draws a history of one kind; noise of .3 to 5 %, in half of them with heavy tails."""

    def __init__(self, seed: int, number: int) -> None:
        self.kind, self.rng = KINDS[number % len(KINDS)], np.random.default_rng([seed, number])
        young = self.kind == "warmstart"
        self.n = int(self.rng.integers(20, 46)) if young else int(self.rng.integers(90, 200))
        self.events: list[Event] = []
        self.level, self.fallen = np.zeros(self.n), np.zeros(self.n)
        self.modes = 0.0, 0.0, False

    def _has(self, what: str) -> bool:
        return what in self.kind or (self.kind == "mixed" and self.rng.random() < 0.5)

    def _move(self, at: int, rel: float, kind: str, until: int | None = None) -> None:
        self.level[at:] += math.log1p(rel)
        if kind in ("regression", "recovery"):
            self.fallen[at:] += math.log1p(rel)
        self.events.append(Event(at, kind, rel, until or self.n))

    def _steps(self) -> None:
        rng, n, kind = self.rng, self.n, self.kind
        young = kind == "warmstart"
        if (kind.startswith("step") or kind in ("mixed", "warmstart")) and not (
            young and rng.random() < 0.3
        ):
            at = int(rng.integers(8 if young else 25, n - (8 if young else 25)))
            size = float(rng.choice(STEPS))
            if kind == "step_recover" or (kind == "mixed" and rng.random() < 0.5):
                until = min(n - 1, at + int(rng.integers(5, 40)))
                self._move(at, -size, "regression", until)
                self._move(until, 1 / (1 - size) - 1, "recovery")
            else:
                self._move(at, -size, "regression")
                if rng.random() < 0.3 and at > 60:
                    before = int(rng.integers(15, at - 25))
                    self._move(before, float(rng.choice(STEPS)), "improvement", at)
        if kind == "hardware":
            at = int(rng.integers(30, n - 30))
            self._move(at, float(rng.choice([-0.15, -0.08, 0.1, 0.3])), "hardware")
            if rng.random() < 0.5 and at + 25 < n - 15:
                later = int(rng.integers(at + 20, n - 12))
                self._move(later, -float(rng.choice(STEPS[2:])), "regression")

    def _modes(self) -> Floats:
        """Two levels 1.5 to 6 % apart, drawn anew each night or each fifth one."""
        rng, n = self.rng, self.n
        if not self._has("bimodal"):
            return np.zeros(n)
        gap, share = float(rng.uniform(0.015, 0.06)), float(rng.uniform(0.15, 0.5))
        fresh = rng.random() < 0.5
        self.modes = gap, share, not fresh
        if fresh:
            slow = rng.random(n) < share
            rng.random(n)
        else:
            slow, now = np.zeros(n, bool), False
            for night in range(n):
                if rng.random() > 0.8:
                    now = bool(rng.random() < share)
                slow[night] = now
            rng.random(n), rng.random(n)
        modes: Floats = -gap * slow
        return modes

    def make(self) -> History:
        """Return the history."""
        rng, n = self.rng, self.n
        sigma = math.exp(rng.uniform(math.log(0.003), math.log(0.05)))
        base = rng.uniform(math.log(20), math.log(50000))
        heavy = rng.random() < 0.5
        self._steps()
        self.events.sort(key=lambda event: event.index)
        noise = np.full(n, sigma)
        if self._has("hetero"):
            walk = np.cumsum(rng.normal(0, 0.08, n))
            noise = sigma * np.clip(np.exp(walk - walk.mean()), 0.5, 3.0)
        draws = [
            rng.standard_t(4, n) / math.sqrt(2) if heavy else rng.standard_normal(n)
            for _ in range(2)
        ]
        slow, rare, depth = np.zeros(n), 0.003, 0.06
        if self._has("outliers"):
            rare, depth = float(rng.uniform(0.01, 0.05)), float(rng.uniform(0.04, 0.15))
        is_slow = rng.random(n) < rare
        slow[is_slow] = rng.exponential(depth, is_slow.sum())
        again = is_slow & (rng.random(n) < 0.4)
        rng.uniform(0.5, 1.2, again.sum())
        modes = self._modes()
        level = self.level + modes
        if self._has("weekly"):
            size = float(rng.choice([-1, 1]) * rng.uniform(0.005, 0.03))
            level = level + size * (np.arange(n) % 7 >= 5)
        if self._has("drift"):
            level = level + np.linspace(0, float(rng.uniform(-0.04, 0.04)), n)
        share = float(rng.uniform(0.3, 0.9))
        values = np.exp(base + level + noise * draws[0] - slow)
        within = noise * share * np.exp(rng.normal(0, 0.25, n))
        within *= np.where(is_slow & (rng.random(n) < 0.7), rng.uniform(1.5, 5, n), 1)
        kept = np.ones(n, bool)
        if self._has("missing"):
            kept &= rng.random(n) > rng.uniform(0.05, 0.15)
            for _ in range(int(rng.integers(1, 4))):
                gone = int(rng.integers(5, n - 6))
                kept[gone : gone + int(rng.integers(2, 7))] = False
        kept[0] = True
        nights = np.flatnonzero(kept)
        events = []
        for event in self.events:
            first, until = (int(k) for k in np.searchsorted(nights, (event.index, event.until)))
            if first < len(nights) and until > first:
                events.append(Event(first, event.kind, event.rel, until))
        stamps = [FIRST + 86400 * int(night) for night in nights]
        truth = Truth(
            (self.fallen + modes + noise * draws[0] - slow)[nights],
            noise[nights],
            heavy,
            (rare, depth),
            self.modes,
            np.log(within / (noise * share))[nights],
        )
        return History(
            stamps, values[nights].tolist(), within[nights].tolist(), round(sigma, 6), events, truth
        )


def drawn(seed: int, number: int) -> History:
    """Return a history of the simulation."""
    return _Maker(seed, number).make()


def alerts_of(history: History, min_change: float) -> list[tuple[int, int]]:
    """Return night and first night of each fall that is told, judged night by night."""
    series, _ = series_from(history.t, history.value, history.within)
    follower, raised, alerts = Follower(min_change), list[int](), []
    for night in range(1, len(series)):
        for change in sorted(follower.extend(series.part(0, night + 1)), key=lambda c: c.first):
            first = change.first
            if first and all(abs(first - other) > SAME for other in raised):
                raised.append(first)
                before = series.level[max(0, first - BEFORE) : first]
                if np.median(before) > np.median(series.level[first : night + 1]):
                    alerts.append((night, first))
    return alerts


@dataclass
class Score:
    """What was told of histories."""

    nights: int = 0
    right: int = 0
    false: int = 0
    delays: list[int] = field(default_factory=list)
    lasting: list[tuple[float, bool]] = field(default_factory=list)
    """Size over noise of each fall that lasts, and whether it was told."""

    def add(self, other: Score) -> None:
        """Add another's counts."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def line(self) -> str:
        """Return precision, recall, F1, false alarms, delays and recall by size."""

        def recall(least: float, most: float) -> float:
            told = [hit for size, hit in self.lasting if least <= size < most]
            return sum(told) / len(told) if told else math.nan

        precision = self.right / max(self.right + self.false, 1)
        whole = recall(0, math.inf)
        middle, late = np.percentile(self.delays, (50, 90)) if self.delays else (math.nan, math.nan)
        return (
            f"P {precision:.2f} R {whole:.2f} F1 {2 * precision * whole / (precision + whole):.2f} "
            f"FA {1000 * self.false / self.nights:.2f} ({self.false} in {self.nights}) "
            f"delay {middle:.0f}/{late:.0f} recall {' '.join(f'{recall(*s):.2f}' for s in SIZES)}"
        )


def score_of(history: History, alerts: Sequence[tuple[int, int]]) -> Score:
    """Return the score of a history: each fall counts once, hardware and what is late do not."""
    falls = [event for event in history.events if event.kind == "regression"]
    score, delays = Score(len(history.t)), dict[int, int | None]()
    for night, first in alerts:
        hit = [
            event
            for event in history.events
            if event.kind in ("regression", "hardware")
            and event.index - EARLY <= first <= event.index + LATE
            and event.index <= night < event.until + SAME
        ]
        of_falls = [falls.index(event) for event in hit if event.kind == "regression"]
        if of_falls:
            delay = night - falls[of_falls[0]].index
            delays.setdefault(of_falls[0], delay if delay <= HORIZON else None)
        elif not hit:
            score.false += 1
    score.delays = [delay for delay in delays.values() if delay is not None]
    score.right = len(score.delays)
    for k, event in enumerate(falls):
        if min(event.until, len(history.t)) - event.index >= LASTING:
            told = delays.get(k) is not None
            score.lasting.append((abs(event.rel) / max(history.sigma, 1e-9), told))
    return score


def _scored(job: tuple[History, float]) -> Score:
    history, min_change = job
    return score_of(history, alerts_of(history, min_change))


def read(path: Path) -> Iterator[History]:
    """Yield the histories of a file of JSON lines."""
    for line in path.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        events = [Event(**event) for event in raw["events"]]
        within = raw.get("within") or [math.nan] * len(raw["t"])
        yield History(raw["t"], raw["value"], within, raw["sigma"], events)


def main(words: list[str]) -> int:
    """Print a line for each set and policy, and one for all seeds."""
    options = argparse.ArgumentParser(prog="python -m tests.performance histories")
    options.add_argument("--seed", type=int, nargs="+", default=[1])
    options.add_argument("--count", type=int, default=144, help="histories of each seed")
    options.add_argument("--file", type=Path, help="judge these instead")
    options.add_argument("--beside", type=Path, help="another checkout, judged as well")
    options.add_argument("--processes", type=int, default=2)
    given = options.parse_args(words)
    if given.file:
        sets = {given.file.name: list(read(given.file))}
    else:
        sets = {f"seed {seed}": [drawn(seed, k) for k in range(given.count)] for seed in given.seed}
    for label, least in POLICIES.items():
        whole = Score()
        with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
            for name, histories in sets.items():
                score = Score()
                for each in pool.imap(_scored, ((h, least) for h in histories), chunksize=4):
                    score.add(each)
                whole.add(score)
                print(f"{name}, {label}: {score.line()}", flush=True)
        if len(sets) > 1:
            print(f"all, {label}: {whole.line()}", flush=True)
    if given.beside:
        print(f"the same by {given.beside.name}:", flush=True)
        at = words.index("--beside")
        path = os.pathsep.join([str(given.beside / "plugins"), os.getcwd()])
        command = [sys.executable, "-m", "tests.performance", "histories"]
        return subprocess.run(
            [*command, *words[:at], *words[at + 2 :]],
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        ).returncode
    return 0
