"""Losses that show whether a case trains as before: means over trainers, ranges over repeats."""

import json
import math
import statistics
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.core.model import RankResult, RepeatSummary, TrainingKind

EARLY_STEPS = 6
"""First steps of a training, also of its warm-up: in these, rounding hardly grows, unless
the batch is smaller than the workload's `steady_batch_size`."""

MEAN_STEPS = 10
"""Steps of the window whose mean loss is compared over nights: a window has at least these."""

LONG_STEPS = 100
"""Steps of a longer mean, in windows that have so many; the protocol's by default."""


@dataclass(frozen=True)
class LaunchLosses:
    """Losses of a launch, or of the launches of a night."""

    figures: Mapping[str, tuple[float, float]]
    """Lowest and highest of each loss of `training_losses`."""
    curve: tuple[float, ...] = ()
    """Loss of the first step, and of each step of the window."""


def trained_differently(result: Mapping[str, Any]) -> list[str]:
    """Return the cases of a comparison's result of which B trains differently from A."""
    return [
        str(case["case_id"])
        for case in result["cases"]
        if (case.get("training") or {}).get("kind") == TrainingKind.CHANGED
    ]


def training_losses(trainers: Sequence[RankResult]) -> dict[str, float] | None:
    """Return the mean losses that `detection.training` compares; None without losses.

    `steps` is the length of the window, `mean_of` how many of its steps `mean` is the mean of.
    `batch` is the batch per device, if the run found it; `conditions` is a checksum of the
    trainers' conditions; `skipped` counts the updates that a loss scale left out.
    """
    if not trainers or not all(rank.loss_window for rank in trainers):
        return None
    steps = min(len(rank.loss_window) for rank in trainers)
    counted = min(steps, MEAN_STEPS)
    figures: dict[str, list[float | None]] = {
        "first": [rank.loss_first for rank in trainers],
        "again": [rank.loss_again for rank in trainers],
    }
    if all(len(rank.loss_early) >= 3 for rank in trainers):
        figures["third"] = [rank.loss_early[2] for rank in trainers]
    if all(len(rank.loss_early) == EARLY_STEPS for rank in trainers):
        figures["early"] = [statistics.fmean(rank.loss_early) for rank in trainers]
    lengths = {"mean": counted, "long": LONG_STEPS, "whole": max(steps, LONG_STEPS + 1)}
    for name, length in lengths.items():
        if length <= steps:
            figures[name] = [statistics.fmean(rank.loss_window[:length]) for rank in trainers]
    means = {
        name: statistics.fmean(known)
        for name, values in figures.items()
        if len(known := [value for value in values if value is not None]) == len(values)
    }
    if not all(map(math.isfinite, means.values())):
        return None
    conditions = [rank.conditions for rank in trainers]
    if all(conditions):
        means["conditions"] = zlib.crc32(json.dumps(conditions, sort_keys=True).encode())
    for name, counts in (
        ("skipped", [rank.skipped_updates for rank in trainers]),
        ("batch", [rank.batch_size for rank in trainers]),
    ):
        if stated := [count for count in counts if count is not None]:
            means[name] = max(stated)
    return means | {"steps": steps, "mean_of": counted}


def loss_curve(trainers: Sequence[RankResult]) -> tuple[float, ...]:
    """Return the mean loss over trainers of the first step and of each step of the window.

    Empty if a trainer recorded none.
    """
    curves = [(rank.loss_first, *rank.loss_window) for rank in trainers]
    known = [
        [math.nan if loss is None else loss for loss in curve] for curve in curves if len(curve) > 1
    ]
    if not known or len(known) < len(curves):
        return ()
    return tuple(statistics.fmean(losses) for losses in zip(*known, strict=False))


def losses_of_repeats(counted: Sequence[RepeatSummary]) -> dict[str, tuple[float, float]] | None:
    """Return the lowest and highest of each value that all repeats have; None without one."""
    stated = [repeat.losses for repeat in counted if repeat.losses]
    if not stated or len(stated) < len(counted):
        return None
    names = set.intersection(*(set(each) for each in stated))
    return {
        name: (min(each[name] for each in stated), max(each[name] for each in stated))
        for name in sorted(names)
    }
