"""Wrappers of a line's trainer: drills slow a step, tests inject faults.

The measured loop calls `step()` of the outermost trainer and knows nothing of the others.
"""

import time


class Wrapper:
    """Delegates to another trainer; subclasses override single methods."""

    def __init__(self, trainer):
        self.trainer = trainer

    def __getattr__(self, name):
        return getattr(self.trainer, name)


class Slowed(Wrapper):
    """A trainer that sleeps in each step, for drills of the detector; see `drill_sleep_s`."""

    def __init__(self, trainer, runtime, sleep_s):
        super().__init__(trainer)
        self._runtime, self._sleep_s = runtime, sleep_s

    def step(self):
        """Runs a step, waits for the device (which would hide the sleep otherwise) and sleeps."""
        self.trainer.step()
        self._runtime.device_sync()
        time.sleep(self._sleep_s)


def drill_sleep_s(job):
    """Returns the sleep that a drill adds to each step, in s; 0 in every other job.

    Read from the job alone, never from the node's environment, which could slow real nights.

    Raises:
        ValueError: a job that is no drill holds it.
    """
    sleep_s = float(job["env"].get("NIGHTBENCH_DRILL_SLEEP_S", 0))
    if sleep_s and not job["run_id"].startswith("drill-"):
        raise ValueError("NIGHTBENCH_DRILL_SLEEP_S is for drills alone: " + job["run_id"])
    return sleep_s
