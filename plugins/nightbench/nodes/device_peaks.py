"""Model FLOPs per second and their share of what the devices can do (MFU).

`device_peaks.csv` holds dense peaks in TFLOP/s: of fp32 without tensor cores, of the others with
them and with sums in float32; empty if the device has none.
"""

import csv
import dataclasses
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from nightbench.core.model import Cluster, Measurement, PlannedCase

TABLE = Path(__file__).with_name("device_peaks.csv")
TERA = 1e12


@cache
def known_devices() -> tuple[dict[str, str], ...]:
    """The table's rows; `device` is a pattern of the name that nvidia-smi prints."""
    with TABLE.open(newline="") as lines:
        return tuple(csv.DictReader(lines))


def device_of(fingerprints: Iterable[Mapping[str, Any]], kind: str) -> str | None:
    """Return the model of the nodes' devices; None if they differ or are not known."""
    models = {
        device.get("model")
        for each in fingerprints
        for device in (each.get("gpus", ()) if kind == "gpu" else (each.get("cpu", {}),))
    }
    return (models.pop() or None) if len(models) == 1 else None


def peak_of(device: str | None, precision: str, stated: Mapping[str, float]) -> float | None:
    """Return the dense peak of one device in FLOP/s, as stated or by the table; None if unknown."""
    if precision in stated:
        return stated[precision]
    for row in known_devices() if device else ():
        if fnmatchcase(device or "", row["device"]):
            return float(row[precision]) * TERA if row.get(precision) else None
    return None


def with_model_flops(
    measurement: Measurement,
    planned: PlannedCase,
    cluster: Cluster,
    fingerprints: Iterable[Mapping[str, Any]],
) -> Measurement:
    """Return a measurement with tokens and model FLOPs per second, and MFU or why there is none."""
    throughput, case = measurement.throughput, planned.case
    if throughput is None:
        return measurement
    device = device_of(fingerprints, cluster.device_kind)
    peak = peak_of(device, case.precision, cluster.peak_flops)
    flops = None if planned.flops_per_unit is None else throughput * planned.flops_per_unit
    peak_flops = None if peak is None else peak * case.trainers
    absent = None
    if flops is None:
        absent = f"{case.workload} states no model FLOPs"
    elif peak is None:
        absent = f"no peak of {device or 'its devices'} at {case.precision} is known"
    tokens = None if planned.tokens_per_unit is None else throughput * planned.tokens_per_unit
    return dataclasses.replace(
        measurement,
        tokens_per_s=tokens,
        model_flops_per_s=flops,
        device=device,
        peak_flops=peak_flops,
        mfu=flops / peak_flops if flops is not None and peak_flops is not None else None,
        mfu_absent=absent,
    )
