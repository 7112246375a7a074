"""Training in the test line: the model says how long a step takes and what its loss is."""

import hashlib
import random
import socket
import time

from frameworks.fake.faults import FaultyTrainer


def Trainer(context, network, data):
    """Returns the trainer of a case, with injected faults."""
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
        """Runs one step; with the parameter `collective` it includes a barrier of all trainers."""
        self.kept.append(self.network.loss(self.model, self.batch))
        if self.context.params.get("collective"):
            self.context.runtime.meet()

    def losses(self):
        """Returns the losses of all steps so far."""
        return list(self.kept)

    def weights_digest(self):
        """Returns a digest that is equal on ranks with equal initial weights and steps."""
        if self.context.case["strategy"] == "parameter_server":
            return None
        trained = "{}:{}".format(self._weights, len(self.kept))
        return hashlib.sha256(trained.encode()).hexdigest()

    def precision_proof(self):
        """Returns the case's precision: nothing is computed."""
        return self.context.precision

    def serve(self):
        """Listens until the agent ends it."""
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("", self.context.ports[self.context.process["name"]]))
            server.listen(8)
            while True:
                time.sleep(3600)
