"""Layers split over devices, one after another, by `torch.distributed.pipelining`.

A batch goes through in parts, so that the devices work at the same time: GPipe (Huang et al. 2019,
arXiv:1811.06965), or a backward after each forward, 1F1B (Narayanan et al. 2019, arXiv:1806.03377).
"""

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

SCHEDULES = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}


def cut(model, context, stage):
    """Leaves of a network what one stage computes; the names of what is left stay.

    Args:
        model: whose `forward` takes what the stage before returns, and passes over what is None.
        context: see `rank.Context`; its workload's `ends` names what the first and the last stage
            have beside layers.
        stage: number of this one.
    """
    layers = getattr(model, context.shards)
    each = len(layers) // context.stages
    for number in range(len(layers)):
        if number // each != stage:
            delattr(layers, str(number))
    for end, owner in (("first", 0), ("last", context.stages - 1)):
        if stage != owner:
            for name in context.ends[end]:
                setattr(model, name, None)


class Pipeline:
    """Trains one stage; all of them step together.

    Args:
        model: a network that was `cut`.
        context: see `rank.Context`.
        mesh: of the stages of one network.
        device: of this rank.
        loss: of a network and a batch.
    """

    def __init__(self, model, context, mesh, device, loss):
        self.group, self.names = mesh.get_group(), context.ends
        self.stage, self.last = mesh.get_local_rank(), context.stages - 1

        def of_logits(logits, labels):
            return loss(lambda _: logits, {self.names["input"]: None, self.names["target"]: labels})

        stage = PipelineStage(model, self.stage, context.stages, device, group=self.group)
        parts = context.case["micro_batches"]
        self.schedule = SCHEDULES[context.case["schedule"]](stage, parts, loss_fn=of_logits)

    def step(self, batch):
        """Forward and backward of all parts; the loss, 0 where another stage knows it."""
        losses, inputs = [], (batch[self.names["input"]],) if self.stage == 0 else ()
        target = batch[self.names["target"]] if self.stage == self.last else None
        self.schedule.step(*inputs, target=target, losses=losses, return_outputs=False)
        if not losses:
            return batch[self.names["input"]].new_zeros((), dtype=torch.float32)
        return torch.stack(losses).mean()

    def shared(self, losses):
        """The last stage's losses, on all of them."""
        dist.all_reduce(losses, group=self.group)
        return losses

    def joined(self, weights):
        """The weights of all stages by name."""
        parts = [None] * (self.last + 1)
        dist.all_gather_object(parts, weights, self.group)
        return {name: value for part in parts for name, value in part.items()}
