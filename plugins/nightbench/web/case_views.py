"""Views of one repeat: step times with their outliers, telemetry by metric, ends of logs. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from nightbench.warehouse.repository import Row
from nightbench.web.run_models import RankSteps, TelemetryMetric

STEPS_SHOWN = 40_000
"""Steps of all processes that one answer holds; those of the slowest processes."""
SAMPLES_SHOWN = 600
"""Samples of a metric that one answer holds."""
OUTLIER_DEVIATIONS = 6.0
LEAST_OUTLIER = 1.1
"""An outlier takes at least so many times the median step."""

_OF_NODE = (
    ("CPU", "%", "cpu_percent", 1.0),
    ("memory", "GB", "memory_used_bytes", 1e-9),
    ("load (1 minute)", "", "load1", 1.0),
)
_OF_GPU = (
    ("SM clock", "MHz", "sm_clock_mhz", 1.0),
    ("power", "W", "power_w", 1.0),
    ("temperature", "°C", "temperature_c", 1.0),
    ("utilization", "%", "utilization_percent", 1.0),
    ("memory", "GB", "memory_used_bytes", 1e-9),
)
NEVER_SAMPLED = "CPU clock, CPU temperature, CPU power and network traffic are not sampled."

Sample = Mapping[str, Any]


# --- steps --------------------------------------------------------------------------------


def rank_steps(ranks: Sequence[Row]) -> list[RankSteps]:
    """Return the step times of processes, in their order, with arrays as far as they fit."""
    found: list[RankSteps] = []
    room = STEPS_SHOWN
    for row in ranks:
        if not row["step_seconds"]:
            continue
        seconds, warmup = _all_steps(row)
        is_shown = not found or len(seconds) <= room
        room -= len(seconds) if is_shown else room
        found.append(_rank(row, seconds if is_shown else [], warmup))
    return found


def _rank(row: Row, seconds: list[float | None], warmup: int) -> RankSteps:
    window = row["step_seconds"]
    middle = median(window)
    deviation = 1.4826 * median(abs(each - middle) for each in window)
    limit = max(LEAST_OUTLIER * middle, middle + OUTLIER_DEVIATIONS * deviation)
    return RankSteps.of(
        row,
        warmup=warmup,
        window=len(window),
        median_s=middle,
        longest_s=max(window),
        limit_s=limit,
        outliers=sum(each > limit for each in window),
        seconds=[None if each is None else round(each, 7) for each in seconds],
    )


def _all_steps(row: Row) -> tuple[list[float | None], int]:
    """Return the lengths of all steps, and how many lie before the window; not waits around it."""
    ends, window = row["step_end_s"], row["step_seconds"]
    opened = row["window_open_s"]
    before = [] if opened is None else [end for end in ends if end <= opened]
    after = ends[len(before) + len(window) :]
    laps: list[float | None] = [None] if before else []
    laps += [end - begin for begin, end in pairwise(before)]
    laps += window
    if after:
        laps += [None, *(end - begin for begin, end in pairwise(after))]
    return laps, len(before)


# --- telemetry ----------------------------------------------------------------------------


def telemetry(samples: Mapping[str, Sequence[Sample]]) -> list[TelemetryMetric]:
    """Return the metrics that were sampled, by node and device."""
    found = []
    for node, given in sorted(samples.items()):
        kept = given[:: -(-len(given) // SAMPLES_SHOWN) or 1]
        for metric, unit, key, scale in _OF_NODE:
            found.append(_metric(node, "", metric, unit, kept, [s.get(key) for s in kept], scale))
        for index in sorted({gpu["index"] for sample in kept for gpu in sample.get("gpus") or ()}):
            gpus = [_gpu(sample, index) for sample in kept]
            for metric, unit, key, scale in _OF_GPU:
                values = [gpu.get(key) for gpu in gpus]
                found.append(_metric(node, f"GPU {index}", metric, unit, kept, values, scale))
    return [metric for metric in found if metric is not None]


def missing_telemetry(samples: Mapping[str, Sequence[Sample]]) -> list[str]:
    """Return a sentence for each thing that was not recorded, or slowed a GPU."""
    said = []
    without = [
        node for node, given in sorted(samples.items()) if not any(s.get("gpus") for s in given)
    ]
    if without:
        said.append(
            f"GPU metrics were not recorded on {', '.join(without)}: nvidia-smi is missing or "
            "printed nothing."
        )
    for node, given in sorted(samples.items()):
        said += [f"{node}, GPU {index} was throttled: {what}" for index, what in _throttles(given)]
    return [*said, NEVER_SAMPLED]


def _metric(
    node: str,
    device: str,
    metric: str,
    unit: str,
    samples: Sequence[Sample],
    values: Sequence[float | None],
    scale: float,
) -> TelemetryMetric | None:
    scaled = [None if value is None else round(value * scale, 3) for value in values]
    known = [value for value in scaled if value is not None]
    if not known:
        return None
    return TelemetryMetric(
        node=node,
        device=device,
        metric=metric,
        unit=unit,
        smallest=min(known),
        median=median(known),
        largest=max(known),
        seconds=[round(sample["t_s"] - samples[0]["t_s"], 3) for sample in samples],
        values=scaled,
    )


def _gpu(sample: Sample, index: int) -> Mapping[str, Any]:
    return next((gpu for gpu in sample.get("gpus") or () if gpu["index"] == index), {})


def _throttles(samples: Sequence[Sample]) -> Iterator[tuple[int, str]]:
    """Yield each GPU's mask of reasons other than being idle, once."""
    seen = {
        (gpu["index"], gpu["throttle"])
        for sample in samples
        for gpu in sample.get("gpus") or ()
        if (gpu.get("throttle") or "").startswith("0x") and int(gpu["throttle"], 16) & ~1
    }
    yield from sorted(seen)
