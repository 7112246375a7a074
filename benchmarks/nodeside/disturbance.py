"""Observes a repeat: telemetry, and foreign work or throttled devices in its window."""

from __future__ import annotations

import time
from typing import Any, Sequence

from nodeside.energy import power_in_window
from nodeside.gpus import ComputeProcessMonitor, throttled
from nodeside.job import NodeJob
from nodeside.neighbours import MAX_SHOWN, UNSEEN, CpuMeter, describe_processes
from nodeside.reasons import DEVICE_THROTTLED, FOREIGN_CPU, FOREIGN_GPU, Reason, reason
from nodeside.telemetry import Telemetry


def foreign_cpu(
    node: str, share: float, processes: Sequence[dict[str, Any]], limit: float
) -> Reason:
    """Return the reason of foreign work on the job's cores (`share` and `limit` of their time)."""
    return reason(
        FOREIGN_CPU,
        node,
        observed="{:.0%} of the cores: {}".format(share, describe_processes(processes) or UNSEEN),
        expected="{:.0%} at most".format(limit),
    )


def foreign_gpu(node: str, processes: Sequence[dict[str, Any]]) -> Reason:
    """Return the reason of foreign processes on the job's GPUs."""
    return reason(FOREIGN_GPU, node, observed=describe_processes(processes), expected="none")


def window_of(summaries: Sequence[Any]) -> tuple[float, float] | None:
    """Return first start and last end of the trainers' windows, s; None if one did not end."""
    windows = [summary["window"] for summary in summaries if summary is not None]
    if not windows or len(windows) < len(summaries):
        return None
    return min(w["open_s"] for w in windows), max(w["close_s"] for w in windows)


class RepeatObserver:
    """Samples telemetry and foreign work during one repeat; made just before its launch.

    Args:
        job: the job on this node.
        meter: the agent's; it outlives the repeat.
    """

    def __init__(self, job: NodeJob, meter: CpuMeter) -> None:
        self._job = job
        self._meter = meter
        self._telemetry = Telemetry(job.cpus, job.here["devices"])
        self._gpus = None
        if job.devices and job.neighbours["gpu"]:
            self._gpus = ComputeProcessMonitor(job.job_id, job.devices)
        self._phases: tuple[str, ...] = ()
        self._from_s = self._to_s = time.monotonic()
        meter.scan_processes()  # earlier work does not count

    def watch(self, pids: Sequence[int]) -> None:
        """Name the pids of the launched processes."""
        self._meter.watch(pids)

    def tick(self, phases: tuple[str, ...]) -> None:
        """Take samples at their time, and one at each change of phase, where windows begin."""
        self._telemetry.tick()
        if self._gpus is not None:
            self._gpus.tick()
        changed = phases != self._phases
        self._phases = phases
        self._meter.tick(time.monotonic(), at_once=changed)

    def stop(self) -> dict[str, Any]:
        """Take the last samples; return the `telemetry` of result.json."""
        self._to_s = time.monotonic()
        self._meter.scan_processes()
        self._meter.watch(())
        if self._gpus is not None:
            self._gpus.tick()
            self._gpus.close()
        return self._telemetry.close()

    def disturbed(self, summaries: Sequence[Any]) -> dict[str, Any] | None:
        """Return the `disturbed` of result.json; None if undisturbed or no window ended.

        Args:
            summaries: rank.json of each trainer of this node, None if it is missing. On a node
                without trainers the window is the time from launch to end.
        """
        window = window_of(summaries) if summaries else (self._from_s, self._to_s)
        if window is None:
            return None
        node, limit = self._job.node, self._job.neighbours["cpu_share"]
        reasons = []
        worst = self._meter.worst(*window)
        processes: list[dict[str, Any]] = []
        if worst.exceeds(limit):
            processes = self._meter.foreign_processes(worst.from_s, worst.to_s)
            reasons.append(foreign_cpu(node, worst.share, processes, limit))
        on_gpus = self._gpus.during(*window) if self._gpus is not None else []
        if on_gpus:
            reasons.append(foreign_gpu(node, on_gpus))
        samples = [s for s in self._telemetry.samples if window[0] <= s["t_s"] <= window[1]]
        slow = throttled(samples, self._job.devices)
        for entry in slow:
            gpu = "GPU {}".format(entry["gpu"])
            said = "{} in {} samples".format(", ".join(entry["reasons"]), entry["samples"])
            reasons.append(reason(DEVICE_THROTTLED, node, gpu, said, "in no sample"))
        if not reasons:
            return None
        return {
            "reasons": reasons,
            "share": round(worst.share, 3),
            "processes": (on_gpus + processes)[: 2 * MAX_SHOWN],
            "throttle": slow,
        }

    def power(self, summaries: Sequence[Any]) -> dict[str, Any]:
        """Return the `power` of result.json.

        Args:
            summaries: rank.json of each trainer of this node, None if it is missing.
        """
        asked = {p["device"] for p in self._job.processes if p["device"] is not None}
        window = window_of(summaries)
        return power_in_window(self._telemetry.samples, sorted(map(str, asked)), window)
