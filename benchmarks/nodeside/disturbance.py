"""Whether a repeat was measured undisturbed: foreign work and throttled devices in its window."""

from __future__ import annotations

from typing import Any, Sequence

from nodeside.gpuneighbours import ComputeWatch
from nodeside.gpus import throttled
from nodeside.neighbours import SHOWN, UNSEEN, Meter, sentence


def judge(
    meter: Meter,
    watch: ComputeWatch | None,
    samples: Sequence[dict[str, Any]],
    devices: Sequence[str],
    limit: float,
    window: tuple[float, float],
) -> dict[str, Any] | None:
    """The `disturbed` of result.json; None where nothing was.

    Args:
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
        reasons.append(
            "foreign work took {:.0%} of the cores in the window: {}".format(
                worst.share, sentence(processes) or UNSEEN
            )
        )
    on_gpus = watch.during(*window) if watch is not None else []
    if on_gpus:
        reasons.append("another process computed on a GPU: {}".format(sentence(on_gpus)))
    slow = throttled([s for s in samples if window[0] <= s["t_s"] <= window[1]], devices)
    for entry in slow:
        reasons.append(
            "GPU {} was slowed down ({}) in {} samples".format(
                entry["gpu"], ", ".join(entry["reasons"]), entry["samples"]
            )
        )
    if not reasons:
        return None
    return {
        "reason": "; ".join(reasons),
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
