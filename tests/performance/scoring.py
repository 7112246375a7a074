"""The rules by which a change detector is scored: histories, alerts, matches, figures.

A detector judges a history night by night and sees the past alone. An alert is right if it dates a
regression at most `EARLY` nights too early or `LATE` nights too late, and if the regression, or the
`SAME` nights after its end, are not over. It counts as a report within `HORIZON` nights. Further
alerts for the same regression and alerts for intended changes of hardware are neutral; all others
are false alarms. Recall counts regressions that last `LASTING` nights or more.
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
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nightbench.detection.incremental import IncrementalDetector
from nightbench.detection.robust import Floats
from nightbench.detection.series import series_from

SAME, EARLY, LATE, HORIZON, LASTING, BEFORE = 7, 5, 7, 30, 10, 15
"""Nights: see above; `SAME` are also those between the alerts of one change, `BEFORE` those whose
median is the level before an alert."""
SIZES = ((0, 2), (2, 4), (4, 8), (8, math.inf))
"""Classes of regressions: size / night-to-night noise."""
POLICIES = {"every change": 0.0, "default policy": 0.01}


@dataclass
class Event:
    """A change of the true level; `until` is the first night after the new level."""

    index: int
    kind: str
    """regression, recovery, improvement, or hardware (intended; an alert for it is neutral)."""
    rel: float
    until: int


@dataclass
class Truth:
    """Parameters of a simulated history, for `bound`; arrays have a value for each night."""

    off: Floats
    """Distance from the level without regressions; weekdays and drift are subtracted."""
    noise: Floats
    heavy: bool
    slow: tuple[float, float]
    """Share and mean depth of slow nights."""
    modes: tuple[float, float, bool]
    """Distance of the other mode, its share, and whether it changes only one night in five."""
    repeats: Floats
    """Logarithm of the spread of each night's repeats over the usual spread."""


@dataclass
class History:
    """Nights of a series, and the true changes."""

    t: list[int]
    value: list[float]
    """Higher is better."""
    within: list[float]
    """Relative standard deviation of each night's repeats."""
    sigma: float
    """Night-to-night noise (relative SD)."""
    events: list[Event]
    truth: Truth | None = None


Alert = tuple[int, int]
"""Night of the alert, and the night to which it dates the change."""


def days(count: int) -> list[int]:
    """Return the timestamps of so many nights."""
    return [1_700_000_000 + 86_400 * night for night in range(count)]


def read(path: Path) -> Iterator[History]:
    """Yield the histories of a file of JSON lines."""
    for line in path.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        events = [Event(**event) for event in raw["events"]]
        within = raw.get("within") or [math.nan] * len(raw["t"])
        yield History(raw["t"], raw["value"], within, raw["sigma"], events)


def alerts_of(history: History, min_change: float = 0.0) -> list[Alert]:
    """Return the alerts for drops of a history that is judged night by night."""
    series, _ = series_from(history.t, history.value, history.within)
    detector, raised, alerts = IncrementalDetector(min_change), list[int](), []
    for night in range(1, len(series)):
        for change in sorted(detector.extend(series.part(0, night + 1)), key=lambda c: c.first):
            first = change.first
            if first and all(abs(first - other) > SAME for other in raised):
                raised.append(first)
                before = series.level[max(0, first - BEFORE) : first]
                if np.median(before) > np.median(series.level[first : night + 1]):
                    alerts.append((night, first))
    return alerts


@dataclass
class Score:
    """Counts of alerts and regressions."""

    nights: int = 0
    right: int = 0
    false: int = 0
    delays: list[int] = field(default_factory=list)
    """Nights from each reported regression to its alert; 0 on its first night."""
    lasting: list[tuple[float, bool]] = field(default_factory=list)
    """Size / noise of each regression that lasts, and whether it was reported."""

    def add(self, other: Score) -> None:
        """Add the counts of another score."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def recall(self, least: float = 0, most: float = math.inf) -> float:
        """Return the share of lasting regressions reported, of a class of size / noise."""
        reported = [hit for size, hit in self.lasting if least <= size < most]
        return sum(reported) / len(reported) if reported else math.nan

    @property
    def precision(self) -> float:
        """Return the share of right alerts."""
        return self.right / max(self.right + self.false, 1)

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall."""
        return 2 * self.precision * self.recall() / (self.precision + self.recall())

    @property
    def false_rate(self) -> float:
        """Return the false alarms per 1,000 nights."""
        return 1000 * self.false / max(self.nights, 1)

    @property
    def delay(self) -> str:
        """Return the median and the 90th percentile of the delay in nights."""
        if not self.delays:
            return "none"
        return "/".join(f"{each:.0f}" for each in np.percentile(self.delays, (50, 90)))

    def line(self) -> str:
        """Return precision, recall, F1, false alarms, delay and recall by size / noise."""
        return (
            f"P {self.precision:.2f} R {self.recall():.2f} F1 {self.f1:.2f} "
            f"FA {self.false_rate:.2f} ({self.false} in {self.nights}) "
            f"delay {self.delay} recall {' '.join(f'{self.recall(*s):.2f}' for s in SIZES)}"
        )


def score_of(history: History, alerts: Sequence[Alert]) -> Score:
    """Return the score of a history."""
    drops = [event for event in history.events if event.kind == "regression"]
    score, delays = Score(len(history.t)), dict[int, int | None]()
    for night, first in alerts:
        hit = [
            event
            for event in history.events
            if event.kind in ("regression", "hardware")
            and event.index - EARLY <= first <= event.index + LATE
            and event.index <= night < event.until + SAME
        ]
        of_drops = [drops.index(event) for event in hit if event.kind == "regression"]
        if of_drops:
            delay = night - drops[of_drops[0]].index
            delays.setdefault(of_drops[0], delay if delay <= HORIZON else None)
        elif not hit:
            score.false += 1
    score.delays = [delay for delay in delays.values() if delay is not None]
    score.right = len(score.delays)
    for k, event in enumerate(drops):
        if min(event.until, len(history.t)) - event.index >= LASTING:
            reported = delays.get(k) is not None
            score.lasting.append((abs(event.rel) / max(history.sigma, 1e-9), reported))
    return score


def _scored(history: History, min_change: float) -> Score:
    return score_of(history, alerts_of(history, min_change))


def total(
    workers: ProcessPoolExecutor, histories: Sequence[History], min_change: float = 0.0
) -> Score:
    """Return the score of all histories together."""
    whole = Score()
    for each in workers.map(partial(_scored, min_change=min_change), histories, chunksize=4):
        whole.add(each)
    return whole


def _plugins(checkout: str) -> Path:
    plugins = Path(checkout).resolve() / "plugins"
    if not (plugins / "nightbench").is_dir():
        raise argparse.ArgumentTypeError(f"found no plugins/nightbench in {checkout}")
    return plugins


def options(figure: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all commands of this kind share."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.performance {figure}")
    parser.add_argument("--beside", type=_plugins, help="also score the detector of this checkout")
    parser.add_argument("--processes", type=int, default=2, help="worker processes [default: 2]")
    return parser


def worker_pool(processes: int, **started_with: Any) -> ProcessPoolExecutor:
    """Return worker processes that import the detector themselves."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, **started_with)


def score_beside(figure: str, words: Sequence[str]) -> int:
    """Repeat a command with the detector of the checkout after `--beside`; return exit status."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--beside", type=_plugins)
    given, others = parser.parse_known_args(words)
    if given.beside is None:
        return 0
    print(f"the same by {given.beside.parent}:", flush=True)
    path = os.pathsep.join([str(given.beside), os.getcwd()])
    command = [sys.executable, "-m", "tests.performance", figure, *others]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode
