"""Sleep: a step that takes `step_s` seconds and a loss that falls by rule."""

from __future__ import annotations

import hashlib
import time


class Task:
    """One rank's share of the work.

    Args:
        step_s: length of a step in seconds.
        batch_size: samples of a step.
        seed: what the weights' digest rests on, so that equal ranks agree.
    """

    def __init__(self, step_s: float, batch_size: int, seed: int) -> None:
        self.samples_per_step = float(batch_size)
        self.steps = 0
        self._step_s = step_s
        self._seed = seed

    def step(self) -> float:
        """Sleep; the loss of the step, which falls from 2."""
        time.sleep(self._step_s)
        self.steps += 1
        return 2.0 / (1.0 + 0.05 * (self.steps - 1))

    def weights_digest(self) -> str:
        """What a real line computes over its weights."""
        return hashlib.sha256("{}:{}".format(self._seed, self.steps).encode()).hexdigest()
