"""Everything that is measured beside a repeat: telemetry, foreign work, GPUs' other users."""

from __future__ import annotations

import time
from typing import Any, Sequence

from nodeside.disturbance import judge, window_of
from nodeside.gpuneighbours import ComputeWatch
from nodeside.job import NodeJob
from nodeside.neighbours import Meter
from nodeside.telemetry import Telemetry


class Observer:
    """Watches one repeat; made just before its launch.

    Args:
        job: the job on this node.
        meter: of the agent; it goes on after the repeat.
    """

    def __init__(self, job: NodeJob, meter: Meter) -> None:
        self._job = job
        self._meter = meter
        self._telemetry = Telemetry(job.cpus, job.here["devices"])
        self._gpus = None
        if job.devices and job.neighbours["gpu"]:
            self._gpus = ComputeWatch(job.job_id, job.devices)
        self._phases: tuple[str, ...] = ()
        self._from_s = self._to_s = time.monotonic()
        meter.look()  # what was before is nobody's disturbance; a moment that costs no step

    def watch(self, pids: Sequence[int]) -> None:
        """The processes run."""
        self._meter.watch(pids)

    def tick(self, phases: tuple[str, ...]) -> None:
        """Sample what is due; a change of phase is a sample too: windows begin and end there."""
        self._telemetry.tick()
        if self._gpus is not None:
            self._gpus.tick()
        changed = phases != self._phases
        self._phases = phases
        self._meter.tick(time.monotonic(), at_once=changed)

    def stop(self) -> dict[str, Any]:
        """The last samples; the `telemetry` of result.json."""
        self._to_s = time.monotonic()
        self._meter.look()
        self._meter.watch(())
        if self._gpus is not None:
            self._gpus.tick()
            self._gpus.close()
        return self._telemetry.close()

    def disturbed(self, summaries: Sequence[Any]) -> dict[str, Any] | None:
        """The `disturbed` of result.json.

        Args:
            summaries: rank.json of each trainer of this node, None where it left none. Without
                trainers here the time from launch to end counts; what did not reach the end of
                its window is not judged.
        """
        window = window_of(summaries) if summaries else (self._from_s, self._to_s)
        if window is None:
            return None
        return judge(
            self._job.node,
            self._meter,
            self._gpus,
            self._telemetry.samples,
            self._job.devices,
            self._job.neighbours["cpu_share"],
            window,
        )
