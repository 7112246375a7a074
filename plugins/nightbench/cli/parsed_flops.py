"""Computes TFLOP/s and MFU of a log's throughput by Nightbench's formulas."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from nightbench.config import load_catalog
from nightbench.config.commands import model_of
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model_flops import TRAINING
from nightbench.nodes.device_peaks import TERA, known_devices, peak_of

EXAMPLES = ("samples", "sequences", "examples", "images")


@dataclasses.dataclass(frozen=True)
class Trained:
    """The user's description of a training."""

    model: str
    """`WORKLOAD` or `WORKLOAD/SCALE`."""
    sequence_length: int | None = None
    devices: int | None = None
    device: str | None = None
    """Name of the device, as nvidia-smi prints it."""
    precision: str = "bf16"


def by_our_formula(found: Mapping[str, Any], trained: Trained) -> dict[str, Any]:
    """Return TFLOP/s and MFU per device of the median; `mfu_absent` says why there is no MFU.

    Args: found: the log's values (`logs.summary`). trained: the model and its devices.

    Raises: UserError: there is no such model or precision, or the values cannot be related to one
    device.
    """
    precisions = known_devices()[0].keys() - {"device", "source"}
    if trained.precision not in precisions:
        raise UserError(f"--precision: {one_of(trained.precision, precisions)}")
    workload, _, scale = trained.model.partition("/")
    params = {} if trained.sequence_length is None else {"sequence_length": trained.sequence_length}
    terms, length = model_of(load_catalog(), workload, scale or "full", params)
    rate = _examples_per_s_per_device(found, length, trained.devices)
    flops = TRAINING * math.fsum(terms.values()) * rate
    peak = peak_of(trained.device, trained.precision, {})
    said = {
        "model": f"{workload} {scale or 'full'}" + (f", {length} tokens" if length else ""),
        "tflops_per_device": flops / TERA,
        "tokens_per_s_per_device": rate * length if length else None,
        "peak_tflops": None if peak is None else peak / TERA,
        "mfu": None if peak is None else flops / peak,
    }
    if peak is None:
        said["mfu_absent"] = (
            f"the peak FLOP/s of {trained.device} at {trained.precision} are unknown"
            if trained.device
            else "no device is named (--device)"
        )
    elif flops > peak:
        said["mfu"] = None
        said["mfu_absent"] = (
            f"{flops / peak:.4g} at a peak of {peak / TERA:g} TFLOP/s is impossible; expected the "
            "log's own --model, --sequence-length, --devices, --device and --precision"
        )
    return said


def _examples_per_s_per_device(
    found: Mapping[str, Any], length: int | None, devices: int | None
) -> float:
    figures = {name: each["median"] for name, each in found["others"].items() if each}
    unit, per_device = found["unit"], found["per_device"]
    rates = []
    if found["throughput"] and (unit in EXAMPLES or unit == "tokens"):
        rates.append((found["throughput"]["median"], unit == "tokens", per_device))
    for name, tokens in (("tokens_per_s", True), ("samples_per_s", False)):
        for suffix in ("_per_device", ""):
            if name + suffix in figures:
                rates.append((figures[name + suffix], tokens, bool(suffix)))
    usable = [each for each in rates if length or not each[1]]
    if not usable:
        raise UserError("the log states no samples or tokens per second; expected one for --model")
    rate, tokens, per_device = next((each for each in usable if each[2]), usable[0])
    if not per_device:
        if devices is None:
            raise UserError("the log's values are the sum of all devices; expected --devices")
        rate /= devices
    return float(rate / length) if tokens and length else float(rate)
