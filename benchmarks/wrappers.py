"""What may stand around a line's trainer while it is measured: drills slow a step, tests break it.

The measured loop calls `step()` of the outermost trainer and knows nothing of the others.
"""

import time


class Wrapper:
    """A trainer that is another one, but for what a subclass overrides."""

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
        """One step and the sleep: a device that runs behind would hide it, so it is waited for."""
        self.trainer.step()
        self._runtime.device_sync()
        time.sleep(self._sleep_s)


def drill_sleep_s(job):
    """The sleep that a drill adds to each step, in seconds; 0 in every other job.

    Read from the job alone, never from the node's environment: nobody slows a real night by it.

    Raises:
        ValueError: a job that is no drill holds it.
    """
    sleep_s = float(job["env"].get("NIGHTBENCH_DRILL_SLEEP_S", 0))
    if sleep_s and not job["run_id"].startswith("drill-"):
        raise ValueError("NIGHTBENCH_DRILL_SLEEP_S is for drills alone: " + job["run_id"])
    return sleep_s
