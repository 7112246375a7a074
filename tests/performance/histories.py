"""How good the detector is: simulated histories, judged night by night and scored.

python -m tests.performance histories --seed 1 2 [--count 144] [--beside CHECKOUT] [--file F.jsonl]

A detector sees the past alone. The default policy is that of `nightbench detect --min-change 1%`.
`--beside` scores another checkout's detector on the same histories in the same run. A file has a
history a line, with the keys of `History`; nights that are missing are left out of it.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from tests.performance import scoring
from tests.performance.scoring import POLICIES, Event, History, Score, Truth

from nightbench.detection.robust import Floats

KINDS = (
    *("stable", "hetero", "outliers", "missing", "bimodal", "drift", "weekly", "step", "step"),
    *("step_recover", "step_outliers", "step_missing", "step_bimodal", "step_weekly"),
    *("step_hetero", "hardware", "warmstart", "mixed"),
)
STEPS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.10, 0.15, 0.20)
FIRST = 1_700_000_000 // 86400 * 86400 + 7200


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


def main(words: list[str]) -> int:
    """Print a line for each set and policy, and one for all seeds."""
    options = scoring.options("histories")
    options.add_argument("--seed", type=int, nargs="+", default=[1])
    options.add_argument("--count", type=int, default=144, help="histories of each seed")
    options.add_argument("--file", type=Path, help="judge these instead")
    given = options.parse_args(words)
    if given.file:
        sets = {given.file.name: list(scoring.read(given.file))}
    else:
        sets = {f"seed {seed}": [drawn(seed, k) for k in range(given.count)] for seed in given.seed}
    with scoring.worker_pool(given.processes) as workers:
        for label, least in POLICIES.items():
            whole = Score()
            for name, histories in sets.items():
                score = scoring.total(workers, histories, least)
                whole.add(score)
                print(f"{name}, {label}: {score.line()}", flush=True)
            if len(sets) > 1:
                print(f"all, {label}: {whole.line()}", flush=True)
    return scoring.score_beside("histories", words)
