"""Wrappers of a line's trainer: drills slow a step, tests inject faults.

The measured loop calls `step()` of the outermost trainer and does not know the inner ones.
"""

import time


class Wrapper:
    """Delegates to another trainer; subclasses override single methods."""

    def __init__(self, trainer):
        self.trainer = trainer

    def __getattr__(self, name):
        return getattr(self.trainer, name)


class Slowed(Wrapper):
    """A trainer that sleeps in each step, for drills of the detector; see `extras`."""

    def __init__(self, trainer, runtime, sleep_s):
        super().__init__(trainer)
        self._runtime, self._sleep_s = runtime, sleep_s

    def step(self):
        """Run a step, wait for the device (otherwise it would hide the sleep) and sleep."""
        self.trainer.step()
        self._runtime.device_sync()
        time.sleep(self._sleep_s)
