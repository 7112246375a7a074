"""Training in PaddlePaddle 3: eager, replicated or split between ranks."""

from apis.paddle.trainer import EagerTrainer


class Trainer(EagerTrainer):
    """One rank."""

    def distribute(self, optimizer):
        """As the case says: `shard_stage`, `tensor`, or replicas."""
        stage = self.context.case.get("shard_stage")
        if stage is None:
            super().distribute(optimizer)
            return
        from frameworks.paddle3 import sharding  # What it imports no other case pays.

        self.forward, self.optimizer = sharding.split(self.model, optimizer(), self.context)

    def count_sent(self):
        """Steps once more, and adds up what its collectives send, where Python calls them."""
        if self.context.case.get("shard_stage") is not None:
            from frameworks.paddle3.sent import Sent

            with Sent() as sent:
                self.step()
            self.sent_bytes_per_step = sent.bytes

    def modes_used(self):
        """What ranks hold."""
        if self.context.case.get("shard_stage") is None:
            return {}
        from frameworks.paddle3 import sharding

        return {"shard_stage": sharding.stage_of(self.forward, self.optimizer)}
