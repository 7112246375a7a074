"""Training: a worker sends its loss to a server in each step."""

import json
import random
import socketserver

COMPRESSION = {"none": lambda value: value, "rounded": lambda value: round(value, 2)}


class Trainer:
    """What one process does."""

    parameters = 1

    def __init__(self, context, network, data):
        self.context = context
        self.network = network
        self.model = network.model(context.params)
        self.compress = COMPRESSION[context.case["compression"]]
        self.samples_per_step = context.batch_size * context.params["frames"]
        self.batch = data.batch(context.params, context.batch_size, random.Random(context.rank))
        self.kept = []

    def step(self):
        """One step; the server must have seen the loss."""
        loss = self.compress(self.network.loss(self.model, self.batch))
        assert self.context.runtime.exchange(loss) == loss
        self.kept.append(loss)

    def losses(self):
        """The losses of all steps so far."""
        return list(self.kept)

    def keep_weights(self):
        """The only weight counts the steps."""
        self.kept_at = len(self.kept)

    def weights_moved(self, updates):
        """How far that is from the window's start."""
        moved = len(self.kept) - self.kept_at
        return {"w": {"norm": self.kept_at, "moved": moved, "largest": moved, "limit": updates}}

    def step_again(self):
        """The workload is not held to converge."""
        return False

    def weights_digest(self):
        """Servers hold the weights."""
        return None

    def gradients_arrive(self):
        """Every step has seen its loss come back."""
        return True

    def precision_proof(self):
        """There is nothing to look at."""
        return self.context.precision

    def serve(self):
        """A server gives back what it gets; the scheduler says where the servers are."""
        context = self.context
        names = [p["name"] for p in context.job["processes"] if p["role"] == "server"]
        servers = json.dumps([context.address(name) for name in names]).encode() + b"\n"

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                if context.role == "scheduler":
                    self.wfile.write(servers)
                    return
                for line in self.rfile:
                    self.wfile.write(line)

        own = context.address(context.process["name"])
        with socketserver.ThreadingTCPServer(own, Handler) as server:
            server.serve_forever()
