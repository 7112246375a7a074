"""Whether a repeat was measured undisturbed: foreign work and throttled devices in its window."""

from __future__ import annotations

from typing import Any, Sequence

from nodeside.gpuneighbours import ComputeWatch
from nodeside.gpus import throttled
from nodeside.neighbours import SHOWN, UNSEEN, Meter, sentence
from nodeside.reasons import DEVICE_THROTTLED, FOREIGN_CPU, FOREIGN_GPU, Reason, reason


def foreign_cpu(
    node: str, share: float, processes: Sequence[dict[str, Any]], limit: float
) -> Reason:
    """Others' work on the cores of the job: `share` of their time, of which `limit` is borne."""
    return reason(
        FOREIGN_CPU,
        node,
        observed="{:.0%} of the cores: {}".format(share, sentence(processes) or UNSEEN),
        expected="{:.0%} at most".format(limit),
    )


def foreign_gpu(node: str, processes: Sequence[dict[str, Any]]) -> Reason:
    """Others' processes on the GPUs of the job."""
    return reason(FOREIGN_GPU, node, observed=sentence(processes), expected="none")


def judge(
    node: str,
    meter: Meter,
    watch: ComputeWatch | None,
    samples: Sequence[dict[str, Any]],
    devices: Sequence[str],
    limit: float,
    window: tuple[float, float],
) -> dict[str, Any] | None:
    """The `disturbed` of result.json; None where nothing was.

    Args:
        node: this node's name.
        meter: what the cores' time was spent on.
        watch: who computed on the GPUs, where that is asked for.
        samples: of the telemetry.
        devices: GPUs of the job on this node.
        limit: foreign share of the cores that is borne.
        window: its ends on the node's monotonic clock.
    """
    reasons = []
    worst = meter.worst(*window)
    processes: list[dict[str, Any]] = []
    if worst.exceeds(limit):
        processes = meter.culprits(worst.from_s, worst.to_s)
        reasons.append(foreign_cpu(node, worst.share, processes, limit))
    on_gpus = watch.during(*window) if watch is not None else []
    if on_gpus:
        reasons.append(foreign_gpu(node, on_gpus))
    slow = throttled([s for s in samples if window[0] <= s["t_s"] <= window[1]], devices)
    for entry in slow:
        reasons.append(
            reason(
                DEVICE_THROTTLED,
                node,
                "GPU {}".format(entry["gpu"]),
                "{} in {} samples".format(", ".join(entry["reasons"]), entry["samples"]),
                "in no sample",
            )
        )
    if not reasons:
        return None
    return {
        "reasons": reasons,
        "share": round(worst.share, 3),
        "processes": (on_gpus + processes)[: 2 * SHOWN],
        "throttle": slow,
    }


def window_of(summaries: Sequence[Any]) -> tuple[float, float] | None:
    """From the first opening to the last close of this node's trainers; None where one is open."""
    windows = [summary["window"] for summary in summaries if summary is not None]
    if not windows or len(windows) < len(summaries):
        return None
    return min(w["open_s"] for w in windows), max(w["close_s"] for w in windows)
