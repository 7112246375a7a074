"""Steps injected into real measurements: 57 segments of public asv results of NumPy and SciPy.

    python -m tests.performance real [--beside CHECKOUT]

Each segment is judged without a step and with one (`data/README.md`). An alert for a change that a
segment itself contains is a false alarm; the second line leaves these segments out.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.performance import scoring
from tests.performance.scoring import Event, History, Score, days

SEGMENTS = Path(__file__).with_name("data") / "asv_segments.jsonl"
LEAST_NIGHTS, REAL_SHIFT = 5, 10.0
"""Fewest nights on each side of a real change, and its size / noise, see `largest_shift`."""
CHANGED = frozenset(
    {
        "asv-numpy-bench_core.CountNonzero.time_count_nonzero-12",
        "asv-numpy-bench_core.CountNonzero.time_count_nonzero-31",
        "asv-numpy-bench_itemselection.Take.time_contiguous-30",
        "asv-numpy-bench_ufunc_strides.AVX_cmplx_arithmetic.time_ufunc-22",
        "asv-scipy-interpolate.Interpolate1d.time_interpolate-26",
        "asv-scipy-sparse_linalg_onenormest.BenchmarkOneNormEst.time_onenormest-23",
        "asv-scipy-spatial.Xdist.time_pdist-53",
        "asv-scipy-stats.DistributionsAll.time_distribution-1342",
        "asv-scipy-stats.DistributionsAll.time_distribution-1870",
        "asv-scipy-stats.DistributionsAll.time_distribution-687",
        "asv-scipy-stats.DistributionsAll.time_distribution-703",
        "asv-scipy-stats.DistributionsAll.time_distribution-763",
    }
)
"""Segments whose `largest_shift` without a step exceeds `REAL_SHIFT`."""


@dataclass(frozen=True)
class Segment:
    """A segment without a step, and with one."""

    name: str
    plain: History
    stepped: History


def read_segments() -> list[Segment]:
    """Return all segments."""
    segments = []
    for line in SEGMENTS.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        values, first, size = raw["values"], raw["step_night"], raw["step_size"]
        slower = [float(f"{value * (1 + size):.6g}") for value in values[first:]]
        step = Event(first, "regression", size, len(values))
        plain, stepped = (
            History(days(len(each)), each, [raw["within"]] * len(each), raw["noise"], events)
            for each, events in ((values, []), (values[:first] + slower, [step]))
        )
        segments.append(Segment(raw["name"], plain, stepped))
    return segments


def largest_shift(history: History) -> float:
    """Return the difference of the medians before and after the best split, in noise scales.

    The best split has at least `LEAST_NIGHTS` on each side and the least sum of absolute
    deviations of the logarithms from the medians of their sides.
    """
    log = np.log(history.value)
    splits = []
    for first in range(LEAST_NIGHTS, len(log) - LEAST_NIGHTS + 1):
        sides = log[:first], log[first:]
        medians = [float(np.median(side)) for side in sides]
        left = sum(np.abs(side - m).sum() for side, m in zip(sides, medians, strict=True))
        splits.append((left, abs(medians[1] - medians[0])))
    return min(splits)[1] / history.sigma


def judge(workers: ProcessPoolExecutor) -> tuple[Score, Score]:
    """Return the scores of all segments, and of those without a real change."""
    segments = read_segments()
    steady, changed = (
        scoring.total(
            workers,
            [
                history
                for each in segments
                if (each.name in CHANGED) is is_changed
                for history in (each.plain, each.stepped)
            ],
        )
        for is_changed in (False, True)
    )
    changed.add(steady)
    return changed, steady


def main(words: list[str]) -> int:
    """Print the score of all segments, and of those without a real change."""
    given = scoring.options("real").parse_args(words)
    with scoring.worker_pool(given.processes) as workers:
        every, steady = judge(workers)
    print(f"all segments: {every.line()}")
    print(f"without {len(CHANGED)} that contain real changes: {steady.line()}")
    return scoring.score_beside("real", words)
