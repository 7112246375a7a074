"""Foreign work before a launch: go on, wait for its end, or refuse."""

from __future__ import annotations

import time
from typing import Any

from nodeside.disturbance import foreign_cpu, foreign_gpu
from nodeside.files import AgentError
from nodeside.gpuneighbours import compute_processes, foreign
from nodeside.job import NodeJob
from nodeside.neighbours import SAMPLE_S, Meter
from nodeside.reasons import NODE_IN_USE, Reason, reason

AGAIN_S = 2.0


class Gate:
    """Decides, look by look, whether a repeat may be launched on this node.

    What the agent's meter saw just before is enough where it was quiet; only then is there
    nothing to wait for. `tick` is called until it says True.

    Args:
        job: its policy, cores and devices.
        meter: measures since some time.
    """

    def __init__(self, job: NodeJob, meter: Meter) -> None:
        self._job = job
        self._meter = meter
        self._policy = job.neighbours
        self._began_s = time.monotonic()
        self._look_s: float | None = None
        self.waiting: list[Reason] = []
        """Whom is waited for; empty while nobody is."""

    def tick(self) -> bool:
        """True where nothing stands against a launch any more.

        Raises:
            AgentError: the node is in use, and the policy does not (or no longer) wait.
        """
        now_s = time.monotonic()
        if self._look_s is None:
            first = self._at_once(now_s)
            if first is not None:
                return first
        elif now_s < self._look_s:
            return False
        else:
            looked = self._meter.look()
            share = self._meter.share(looked.from_s, looked.to_s)
            busy = self._describe(
                share.exceeds(self._policy["cpu_share"]), share.share, looked.from_s, looked.to_s
            )
            if not busy:
                return True
            self._refuse_or_wait(busy, now_s)
        self._look_s = now_s + (AGAIN_S if self.waiting else SAMPLE_S)
        return False

    def _at_once(self, now_s: float) -> bool | None:
        """Decide from what was seen already; None: nothing is certain, look for a second."""
        meter = self._meter
        meter.tick(now_s, at_once=True)
        measured_s = now_s - meter.samples[0].t_s
        share = meter.share(now_s - SAMPLE_S, now_s)
        loud = share.exceeds(self._policy["cpu_share"])
        if self._policy["action"] == "record":
            if loud:
                self._job.log.write("neighbours", share=round(share.share, 3))
            return True
        if measured_s >= SAMPLE_S and not loud and not self._gpu_processes():
            return True
        meter.look()  # what was before does not count against anybody
        return None

    def _describe(self, loud: bool, share: float, from_s: float, to_s: float) -> list[Reason]:
        """Who is there; empty where nobody is."""
        node, found = self._job.node, []
        if loud:
            processes = self._meter.culprits(from_s, to_s)
            found.append(foreign_cpu(node, share, processes, self._policy["cpu_share"]))
        on_gpu = self._gpu_processes()
        if on_gpu:
            found.append(foreign_gpu(node, on_gpu))
        return found

    def _gpu_processes(self) -> list[dict[str, Any]]:
        if not self._policy["gpu"]:
            return []
        return foreign(self._job.job_id, compute_processes(self._job.devices), before_launch=True)

    def _refuse_or_wait(self, busy: list[Reason], now_s: float) -> None:
        refuses = self._policy["action"] == "refuse"
        patience_s = 0.0 if refuses else self._policy["wait_s"]
        if refuses or now_s - self._began_s > patience_s:
            in_use = reason(NODE_IN_USE, self._job.node, observed="{:.0f} s".format(patience_s))
            raise AgentError("node {} is in use".format(self._job.node), reasons=[in_use, *busy])
        if not self.waiting:
            self._job.log.write("neighbours", waiting_for=busy)
        self.waiting = busy
