"""Mean power of a job's devices in the measured window, from the samples of its telemetry.

For a job on GPUs, these are the boards of its GPUs; otherwise, the node's CPU packages with all
work on them. CPU memory, fans, network and losses of power supplies are not included.
"""

from __future__ import annotations

from typing import Any, Sequence

from nodeside.gpus import is_among

MIN_SAMPLES = 5
"""Minimum samples of each device in the window; at least one for every two seconds."""


def power_in_window(
    samples: Sequence[dict[str, Any]], devices: Sequence[str], window: tuple[float, float] | None
) -> dict[str, Any]:
    """Return the `power` of result.json.

    Args:
        samples: of the telemetry.
        devices: GPUs of the job's processes on this node, by index or UUID; empty: its CPUs.
        window: (start, end) on the node's monotonic clock, s; None if none ended.
    """
    source, what = "nvidia-smi", "power of the GPUs"
    if not devices:
        source, what = "rapl", "energy of the CPU packages"
    found: dict[str, Any] = {"source": source, "mean_w": None, "samples": 0, "absent": None}
    if window is None:
        return dict(found, absent="no window of a trainer")
    inside = [s for s in samples if window[0] <= s["t_s"] <= window[1]]
    needed = max(MIN_SAMPLES, int((window[1] - window[0]) / 2))
    count, watts = _of_gpus(inside, devices) if devices else _of_packages(inside)
    found["samples"] = count
    if not count and len(inside) >= needed:
        return dict(found, absent="the {} cannot be read".format(what))
    if count < needed:
        words = "the {} was read {} times in the window; expected at least {}"
        return dict(found, absent=words.format(what, count, needed))
    if watts <= 0:
        return dict(found, absent="the {} does not change".format(what))
    return dict(found, mean_w=round(watts, 3))


def _of_gpus(samples: Sequence[dict[str, Any]], devices: Sequence[str]) -> tuple[int, float]:
    """Return the fewest samples of any GPU, and the sum of the GPUs' mean powers in W."""
    each = [
        [
            gpu["power_w"]
            for sample in samples
            for gpu in sample["gpus"]
            if is_among(gpu, [device]) and gpu["power_w"] is not None
        ]
        for device in devices
    ]
    return min(map(len, each)), sum(sum(said) / len(said) for said in each if said)


def _of_packages(samples: Sequence[dict[str, Any]]) -> tuple[int, float]:
    """Return the number of samples of the CPU packages, and their mean power in W."""
    said = [(s["t_s"], s["cpu_energy_j"]) for s in samples if s["cpu_energy_j"] is not None]
    if len(said) < 2:
        return len(said), 0.0
    return len(said), (said[-1][1] - said[0][1]) / (said[-1][0] - said[0][0])
