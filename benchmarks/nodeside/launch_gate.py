"""Decides by the job's policy whether foreign work delays or prevents a launch."""

from __future__ import annotations

import time
from typing import Any

from nodeside.disturbance import foreign_cpu, foreign_gpu
from nodeside.files import AgentError
from nodeside.gpus import compute_processes, foreign
from nodeside.job import NodeJob
from nodeside.neighbours import SAMPLE_S, CpuMeter
from nodeside.reasons import NODE_IN_USE, Reason, reason

WAIT_INTERVAL_S = 2.0


class LaunchGate:
    """Opens when no foreign work prevents a launch on this node.

    It opens at once if the meter has found no foreign work in the last second; otherwise it
    measures again. `tick` is called until it returns True.

    Args:
        job: its policy, cores and devices.
        meter: measures foreign work on the job's cores.
    """

    def __init__(self, job: NodeJob, meter: CpuMeter) -> None:
        self._job = job
        self._meter = meter
        self._policy = job.neighbours
        self._began_s = time.monotonic()
        self._next_s: float | None = None
        self.waiting: list[Reason] = []
        """Foreign work whose end the gate waits for; empty if there is none."""

    def tick(self) -> bool:
        """Return whether the repeat may be launched.

        Raises:
            AgentError: the node is in use, and the policy does not (or no longer) wait.
        """
        now_s = time.monotonic()
        if self._next_s is None:
            first = self._decide_at_once(now_s)
            if first is not None:
                return first
        elif now_s < self._next_s:
            return False
        else:
            found_work = self._foreign_work()
            if not found_work:
                return True
            self._refuse_or_wait(found_work, now_s)
        self._next_s = now_s + (WAIT_INTERVAL_S if self.waiting else SAMPLE_S)
        return False

    def _decide_at_once(self, now_s: float) -> bool | None:
        """Decide from earlier samples; return None if another second must be measured."""
        meter = self._meter
        meter.tick(now_s, at_once=True)
        measured_s = now_s - meter.samples[0].t_s
        share = meter.share(now_s - SAMPLE_S, now_s)
        exceeded = share.exceeds(self._policy["cpu_share"])
        if self._policy["action"] == "record":
            if exceeded:
                self._job.log.write("neighbours", share=round(share.share, 3))
            return True
        if measured_s >= SAMPLE_S and not exceeded and not self._gpu_processes():
            return True
        meter.scan_processes()  # work before this moment does not count
        return None

    def _foreign_work(self) -> list[Reason]:
        """Return the foreign work since the last scan as reasons; empty if there is none."""
        node, limit, found = self._job.node, self._policy["cpu_share"], []
        scan = self._meter.scan_processes()
        share = self._meter.share(scan.from_s, scan.to_s)
        if share.exceeds(limit):
            processes = self._meter.foreign_processes(scan.from_s, scan.to_s)
            found.append(foreign_cpu(node, share.share, processes, limit))
        on_gpu = self._gpu_processes()
        if on_gpu:
            found.append(foreign_gpu(node, on_gpu))
        return found

    def _gpu_processes(self) -> list[dict[str, Any]]:
        if not self._policy["gpu"]:
            return []
        return foreign(self._job.job_id, compute_processes(self._job.devices), before_launch=True)

    def _refuse_or_wait(self, found_work: list[Reason], now_s: float) -> None:
        refuses = self._policy["action"] == "refuse"
        patience_s = 0.0 if refuses else self._policy["wait_s"]
        if refuses or now_s - self._began_s > patience_s:
            in_use = reason(NODE_IN_USE, self._job.node, observed="{:.0f} s".format(patience_s))
            raise AgentError(
                "node {} is in use".format(self._job.node), reasons=[in_use, *found_work]
            )
        if not self.waiting:
            self._job.log.write("neighbours", waiting_for=found_work)
        self.waiting = found_work
