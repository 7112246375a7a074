"""Training in PaddlePaddle 3: eager, replicated or split between ranks."""

from apis.paddle.trainer import EagerTrainer


class Trainer(EagerTrainer):
    """One rank."""

    sharding = matrices = None

    def distribute(self, optimizer):
        """As the case says: `shard`, `tensor`, or replicas."""
        # What these import no other case pays.
        if self.context.case.get("shard_stage") is not None:
            from frameworks.paddle3 import sharding

            self.sharding = sharding
            self.forward, self.optimizer = sharding.split(self.model, optimizer(), self.context)
        elif self.context.tensor > 1:
            from frameworks.paddle3.tensor import Split

            self.matrices = Split(self.model, self.context)
            self.forward, self.optimizer = self.model, optimizer()
        else:
            super().distribute(optimizer)

    def placed(self, batch):
        """A batch's tensors, whole on all devices that split matrices."""
        tensors = super().placed(batch)
        if self.matrices:
            tensors = {name: self.matrices.whole(tensor) for name, tensor in tensors.items()}
        return tensors

    def exchange(self):
        """Replicas of split matrices are averaged."""
        if self.matrices:
            self.matrices.average(self.model.parameters())

    def whole(self, weight):
        """All of a parameter; every rank has to ask for it."""
        if self.sharding:
            return self.sharding.whole(weight)
        return self.matrices.gathered(weight) if self.matrices else weight

    def count_sent(self):
        """Steps once more, and adds up what fleet sends; of all else Python sees nothing."""
        if self.sharding:
            from frameworks.paddle3.sent import Sent

            with Sent() as sent:
                self.step()
            self.sent_bytes_per_step = sent.bytes

    def modes_used(self):
        """Whether the loss is a graph, what ranks hold, and how much they exchange at once."""
        found = super().modes_used()
        if self.sharding:
            found["shard_stage"] = self.sharding.stage_of(self.forward, self.optimizer)
        if self.matrices:
            found["tensor"] = str(self.matrices.parts())
        return found
