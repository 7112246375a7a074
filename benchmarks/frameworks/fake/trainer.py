"""Training in the test line: the model says how long a step takes and what its loss is."""

import hashlib
import math
import random
import socket
import time

from frameworks.fake.faults import FaultyTrainer

RATE = 0.001
"""Distance that each weight moves in a step."""


def Trainer(context, network, data):
    """Return the trainer of a case, with injected faults."""
    context.runtime.faults.on_build()
    return FaultyTrainer(PlainTrainer(context, network, data), context.runtime.faults)


class PlainTrainer:
    """One rank with the members of `base_trainer.Base`, which needs NumPy."""

    def __init__(self, context, network, data):
        self.context = context
        self.network = network
        self.model = network.model(context.params)
        self.batch = data.batch(context.params, context.batch_size, random.Random(context.rank))
        self._weights = data.weights(context.params, random.Random(context.seed))
        self.parameters = sum(len(values) for values in self._weights.values())
        self.samples_per_step = context.batch_size
        self.kept = []

    def step(self):
        """Run one step; with the parameter `collective` it includes a barrier of all trainers."""
        self.kept.append(self.network.loss(self.model, self.batch))
        if self.context.params.get("collective"):
            self.context.runtime.meet()

    def losses(self):
        """Return the losses of all steps so far."""
        return list(self.kept)

    def keep_weights(self):
        """Note the step from which `weights_moved` counts."""
        self.kept_at = len(self.kept)

    def weights_moved(self, updates):
        """Return how far the weights have moved, as `base_trainer.Base` does."""
        by = RATE * (len(self.kept) - self.kept_at)
        return {
            name: {
                "norm": math.sqrt(sum(value**2 for value in values)),
                "moved": by * math.sqrt(len(values)),
                "largest": by,
                "limit": None,
            }
            for name, values in self._weights.items()
        }

    def step_again(self):
        """Run a step: all are on the same batch."""
        self.step()
        return True

    def gradients_arrive(self):
        """Return True if `base_trainer.Base` would check it."""
        case = self.context.case
        asked = case["strategy"] == "parameter_server" and case["sync"] == "async"
        return True if asked and self.context.world_size > 1 else None

    def weights_digest(self):
        """Return a digest that is equal on ranks with equal initial weights and steps."""
        if self.context.case["strategy"] == "parameter_server":
            return None
        trained = "{}:{}".format(self._weights, len(self.kept))
        return hashlib.sha256(trained.encode()).hexdigest()

    def precision_proof(self):
        """Return the case's precision: nothing is computed."""
        return self.context.precision

    def serve(self):
        """Listen until the agent ends it."""
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("", self.context.ports[self.context.process["name"]]))
            server.listen(8)
            while True:
                time.sleep(3600)
