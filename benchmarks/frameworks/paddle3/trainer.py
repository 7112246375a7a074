"""Training in PaddlePaddle 3: eager, replicated or split between ranks."""

import contextlib
import functools

import paddle
from apis.paddle.trainer import EagerTrainer
from paddle.distributed.fleet.utils import recompute


class Trainer(EagerTrainer):
    """One rank."""

    sharding = matrices = None

    def distribute(self, optimizer):
        """Set `forward` and `optimizer` for the case: `shard`, `tensor`, or replicas."""
        if self.context.case.get("recompute", "none") == "full":
            recompute_layers(getattr(self.model, self.context.shards))
        # Slow to import: only for these cases.
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
        """Return the tensors of a batch, replicated on all devices that split matrices."""
        tensors = super().placed(batch)
        if self.matrices:
            tensors = {name: self.matrices.whole(tensor) for name, tensor in tensors.items()}
        return tensors

    def backward(self, batch):
        """Run a batch in the case's micro-batches; ranks exchange once. Return the loss."""
        parts = self.context.case.get("micro_batches", 1)
        if parts == 1:
            return super().backward(batch)
        cut, losses = {name: tensor.chunk(parts) for name, tensor in batch.items()}, []
        for number in range(parts):
            part = {name: each[number] for name, each in cut.items()}
            with self.exchanging(number == parts - 1):
                losses.append(self.part_backward(part, parts))
        return sum(losses)

    def exchanging(self, is_last):
        """Return a context in which replicas accumulate gradients until the last micro-batch."""
        if is_last or not isinstance(self.forward, paddle.DataParallel):
            return contextlib.nullcontext()
        return self.forward.no_sync()

    def exchange(self):
        """Average gradients over the replicas of split matrices."""
        if self.matrices:
            self.matrices.average(self.model.parameters())

    def whole(self, weight):
        """Return a whole parameter; every rank must call this."""
        if self.sharding:
            return self.sharding.whole(weight)
        return self.matrices.gathered(weight) if self.matrices else super().whole(weight)

    def count_step(self):
        """Count FLOPs and the bytes that fleet sends; Python sees no other exchange."""
        super().count_step()
        if self.sharding:
            from frameworks.paddle3.sent import Sent

            with Sent() as sent:
                self.step()
            self.sent_bytes_per_step = sent.bytes

    def modes_used(self):
        """Return what the base class finds, and how weights and matrices are really split."""
        found = super().modes_used()
        if self.sharding:
            found["shard_stage"] = self.sharding.stage_of(self.forward, self.optimizer)
        if self.matrices:
            found["tensor"] = str(self.matrices.parts())
        return found


def recompute_layers(layers):
    """Make layers keep only their inputs, and compute the rest again for the backward."""
    for layer in layers:
        # In reentrant backward passes DataParallel has already used a parameter's gradient.
        layer.forward = functools.partial(recompute, layer.forward, use_reentrant=False)
