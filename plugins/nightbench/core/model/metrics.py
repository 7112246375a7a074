"""Metrics that a suite can be judged by: unit, direction, why a value is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

JudgedMetric = Literal[
    "throughput",
    "tokens_per_s_per_device",
    "tflops_per_device",
    "mfu",
    "joules_per_unit",
    "peak_resident_bytes",
    "peak_allocator_bytes",
]
"""By their names in `marts.fct_measurement`."""
AlertMetric = JudgedMetric | Literal["training"]
"""Subjects of an alert: a metric, or the losses."""


@dataclass(frozen=True)
class MetricInfo:
    """One of them."""

    name: AlertMetric
    unit: str
    """`{units}` and `{one}` stand for the workload's unit of work: images, image."""
    lower_is_better: bool = False
    divisor: float = 1.0
    """Stored values by this are in `unit`."""
    has_spread: bool = True
    """Whether its repeats spread as the throughput's do, of which it is a multiple."""
    absent: str = ""
    """Column that says why there is none, or the reason itself."""

    def unit_of(self, work: str | None) -> str:
        """Its unit, where `work` is the workload's unit; empty if that is needed and unknown."""
        if not work and "{" in self.unit:
            return ""
        return self.unit.format(units=work, one=(work or "").removesuffix("s"))

    def text(self, value: float, digits: int = 4) -> str:
        """Return a stored value as a sentence has it; a throughput without its unit."""
        unit = self.unit.partition("/{")[0]
        said = f"{value / self.divisor:.{digits}g}"
        return said if self.name == "throughput" else f"{said} {unit}"

    def value_of(self, row: Mapping[str, Any]) -> float | None:
        """Return its value in a row of a measurement; None if there is none, or it is not one.

        A value of zero or less cannot be: the reading failed.
        """
        value = row[self.name]
        return float(value) if value is not None and math.isfinite(value) and value > 0 else None

    def why_absent(self, row: Mapping[str, Any]) -> str:
        """Return why a row of a measurement has no value."""
        reason = row[self.absent] if self.absent.endswith("_absent") else self.absent
        return reason or "it was not recorded"


THROUGHPUT = MetricInfo("throughput", "{units}/s")
METRICS: Mapping[str, MetricInfo] = {
    each.name: each
    for each in (
        THROUGHPUT,
        MetricInfo(
            "tokens_per_s_per_device", "tokens/s/device", absent="only language models have it"
        ),
        MetricInfo(
            "tflops_per_device", "TFLOP/s/device", absent="the workload states no model FLOPs"
        ),
        MetricInfo("mfu", "MFU", absent="mfu_absent"),
        MetricInfo(
            "joules_per_unit",
            "J/{one}",
            lower_is_better=True,
            has_spread=False,
            absent="energy_absent",
        ),
        MetricInfo(
            "peak_resident_bytes",
            "GB",
            lower_is_better=True,
            divisor=1e9,
            has_spread=False,
            absent="the ranks reported no peak",
        ),
        MetricInfo(
            "peak_allocator_bytes",
            "GB",
            lower_is_better=True,
            divisor=1e9,
            has_spread=False,
            absent="no rank counts the memory of a device",
        ),
    )
}

_TRAINING = MetricInfo("training", "loss")


def info_of(metric: AlertMetric) -> MetricInfo:
    """Return unit and direction of what an alert is about."""
    return _TRAINING if metric == "training" else METRICS[metric]
