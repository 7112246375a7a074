"""Sleep: a step takes `step_s` seconds, and its loss decreases by rule."""

import time


class Sleeper:
    """A network without weights: it sleeps or, with the parameter `busy`, computes."""

    def __init__(self, params):
        self.step_s = params.get("step_s", 0.01)
        self.busy = params.get("busy", False)
        self.steps = 0

    def __call__(self, batch):
        """Return the loss of a step, which decreases from 2."""
        if self.busy:
            until_s = time.monotonic() + self.step_s
            while time.monotonic() < until_s:
                sum(range(1000))
        else:
            time.sleep(self.step_s)
        self.steps += 1
        return 2.0 / (1.0 + 0.05 * (self.steps - 1))


def model(params):
    """The network."""
    return Sleeper(params)


def loss(model, batch):
    """The loss of a batch."""
    return model(batch)
