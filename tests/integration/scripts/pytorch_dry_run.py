"""Prints what a rank of many holds and sends at full size, by a step that computes nothing.

    python pytorch_dry_run.py CODE < jobs.json

CODE is the folder of the benchmarks; on stdin come pairs of a job.json and a rank, and
on stdout a line for each. Tensors are
fake, they have shapes and no values, and so is the process group, which exchanges nothing. A
pipeline is built and not stepped: its stages ask each other for shapes. DistributedDataParallel
cannot be had: its buckets would be real.
"""

import importlib
import json
import os
import sys
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])

import rank
import torch
import torch.distributed as dist
from base_trainer import DoesNotFit
from frameworks.pytorch.trainer import Trainer
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore


def dry_run(job, number):
    """Bytes of weights, gradients and optimiser states; what a step sends."""
    spec = rank.read_json(os.path.join(sys.argv[1], "workloads", "llama", "spec.json"))
    context = rank.Context(job, f"trainer-{number}", {"ports": {}}, None, spec)
    context.runtime = SimpleNamespace(device=torch.device("cpu"))
    dist.init_process_group("fake", store=FakeStore(), rank=number, world_size=context.world_size)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    trainer = without_values(context, fake)
    weights = list(trainer.model.parameters())
    found = {"weights": held(weights)}
    if context.stages == 1:
        with fake:
            trainer.step()
            found["gradients"] = held(weight.grad for weight in weights)
            optimizer = getattr(trainer.optimizer, "optim", trainer.optimizer)
            states = optimizer.state.values()
            found["optimiser states"] = held(x for state in states for x in state.values())
            trainer.count_sent()
        found["sent"] = trainer.sent_bytes_per_step
    dist.destroy_process_group()
    return found


def without_values(context, fake):
    """The line's own trainer, of a network whose weights have no values and are not drawn."""
    network = importlib.import_module("workloads.llama.pytorch")

    class Undrawn(Trainer):
        def _load(self):
            self.parameters = sum(weight.numel() for weight in self.model.parameters())

    def model(params):
        with fake:
            made = network.model(params)
        made.to = lambda *_, **__: made  # Fake weights cannot be swapped, and lie where they are.
        return made

    undrawn = SimpleNamespace(model=model, loss=network.loss)
    trainer = Undrawn(context, undrawn, importlib.import_module("workloads.llama.data"))
    if trainer.parameters != context.parameters:
        raise DoesNotFit(f"found {trainer.parameters} parameters")
    return trainer


def held(tensors):
    """Bytes on this rank."""
    return sum(getattr(each, "_local_tensor", each).nbytes for each in tensors)


for job, number in json.load(sys.stdin):
    print(json.dumps(dry_run(job, number)), flush=True)
