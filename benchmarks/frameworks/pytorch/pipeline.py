"""Layers split over devices, one after another, by `torch.distributed.pipelining`.

A batch is computed in micro-batches, so that the devices work at the same time. Schedules: GPipe
(Huang et al. 2019, arXiv:1811.06965); 1F1B, a backward after each forward (Narayanan et al. 2019,
arXiv:1806.03377); interleaved, 1F1B with two stages on each device (Narayanan et al. 2021,
arXiv:2104.04473); ZB-V, which delays gradients of weights until a device would wait (Qi et al.
2023, arXiv:2401.10241).
"""

import copy

import torch
import torch.distributed as dist
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleZBVZeroBubble,
)
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

SCHEDULES = {
    "1f1b": Schedule1F1B,
    "gpipe": ScheduleGPipe,
    "interleaved": ScheduleInterleaved1F1B,
    "zero_bubble": ScheduleZBVZeroBubble,
}


def stages_on(device, context):
    """Return the numbers of a device's stages, and the number of the pipeline's last stage."""
    last = context.stages - 1
    if context.case["schedule"] == "interleaved":
        return (device, device + context.stages), last + context.stages
    if context.case["schedule"] == "zero_bubble":  # First and last stage on one device.
        return (device, last + context.stages - device), last + context.stages
    return (device,), last


def cut(model, context, device):
    """Keep the part of a network that one device computes, with its names.

    Args:
        model: its `forward` takes the output of the stage before, and skips modules that are None.
        context: see `rank.Context`; its workload's `ends` names the modules that the first and the
            last stage have in addition to layers.
        device: number of this device in the pipeline.

    Returns:
        Number of a stage -> its network, which shares modules and tables with the model.
    """
    numbers, last = stages_on(device, context)
    layers = getattr(model, context.shards)
    each = len(layers) // (last + 1)
    for number in range(len(layers)):
        if number // each not in numbers:
            delattr(layers, str(number))
    ends = dict.fromkeys(context.ends["first"], 0)
    ends.update(dict.fromkeys(context.ends["last"], last))
    for name, owner in ends.items():
        if owner not in numbers:
            setattr(model, name, None)
    return {number: _stage(model, context, number, each, ends) for number in numbers}


def _stage(model, context, number, each, ends):
    """Return a copy of the model that has only the modules of one stage."""
    stage = _like(model)
    for name, owner in ends.items():
        if owner != number:
            setattr(stage, name, None)
    layers = _like(getattr(model, context.shards))
    for name in list(layers._modules):
        if int(name) // each != number:
            delattr(layers, name)
    setattr(stage, context.shards, layers)
    return stage


def _like(module):
    """Return a shallow copy whose modules may change; it shares parameters and buffers."""
    made = copy.copy(module)
    parts = {name: value.copy() for name, value in vars(module).items() if isinstance(value, dict)}
    vars(made).update(parts, _parameters=module._parameters, _buffers=module._buffers)
    return made


class Pipeline:
    """Trains the stages of one device; all devices step together.

    Args:
        stages: the result of `cut`.
        context: see `rank.Context`.
        mesh: the devices of one network.
        device: the device of this rank.
        loss: function of a network and a batch.
    """

    def __init__(self, stages, context, mesh, device, loss):
        self.group, self.names = mesh.get_group(), context.ends
        _, last = stages_on(mesh.get_local_rank(), context)
        self.is_first, self.is_last = 0 in stages, last in stages

        def of_logits(logits, labels):
            return loss(lambda _: logits, {self.names["input"]: None, self.names["target"]: labels})

        own = [
            PipelineStage(model, number, last + 1, device, group=self.group)
            for number, model in stages.items()
        ]
        schedule = SCHEDULES[context.case["schedule"]]
        parts = context.case["micro_batches"]
        given = own[0] if issubclass(schedule, PipelineScheduleSingle) else own
        self.schedule = schedule(given, parts, loss_fn=of_logits)

    def step(self, batch):
        """Run all micro-batches; return the loss, or 0 if another device computes it."""
        losses, inputs = [], (batch[self.names["input"]],) if self.is_first else ()
        target = batch[self.names["target"]] if self.is_last else None
        self.schedule.step(*inputs, target=target, losses=losses, return_outputs=False)
        if not losses:
            return batch[self.names["input"]].new_zeros((), dtype=torch.float32)
        return torch.stack(losses).mean()

    def name(self):
        """Return the name of the active schedule."""
        return next(name for name, each in SCHEDULES.items() if type(self.schedule) is each)

    def shared(self, losses):
        """Return the last stage's losses on all devices."""
        dist.all_reduce(losses, group=self.group)
        return losses

    def joined(self, weights):
        """Return name -> weight of all devices."""
        parts = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(parts, weights, self.group)
        return {name: value for part in parts for name, value in part.items()}
