"""Prints what a rank of many holds and sends at full size, by a step that computes nothing.

    python pytorch_dry_run.py CODE < jobs.json

CODE is the folder of the benchmarks; on stdin come pairs of a job.json and a rank, and
on stdout a line for each. Tensors are
fake, they have shapes and no values, and so is the process group, which exchanges nothing: what
would wait for another rank's answer is told it.
"""

import collections
import importlib
import json
import os
import sys
import weakref
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])

import rank
import torch
import torch.distributed as dist
from base_trainer import DoesNotFit
from frameworks.pytorch import pipeline, tuning
from frameworks.pytorch.trainer import Trainer
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.pipelining import PipelineStage
from torch.nn import parallel
from torch.testing._internal.distributed.fake_pg import FakeStore

FAKE = FakeTensorMode(allow_non_fake_inputs=True)


def dry_run(job, number):
    """Bytes of weights, gradients and optimizer states; what the first step keeps and sends."""
    spec = rank.read_json(os.path.join(sys.argv[1], "workloads", "llama", "spec.json"))
    context = rank.Context(job, f"trainer-{number}", {"ports": {}}, None, spec)
    context.runtime = SimpleNamespace(device=torch.device("cpu"), mean=float)
    dist.init_process_group("fake", store=FakeStore(), rank=number, world_size=context.world_size)
    trainer = without_values(context)
    weights = list(trainer.model.parameters())
    with FAKE:
        with Kept(weights_of=trainer.model) as kept:
            trainer.count_step()
        optimizer = getattr(trainer.optimizer, "optim", trainer.optimizer)
        states = optimizer.state.values()
        found = {
            "weights": held(weights),
            "gradients": held(weight.grad for weight in weights),
            "optimizer states": held(x for state in states for x in state.values()),
            "activations": kept.most,
            "sent": trainer.sent_bytes_per_step,
        }
    dist.destroy_process_group()
    return found


def without_values(context):
    """The line's own trainer, of a network whose weights have no values and are not drawn."""
    network = importlib.import_module("workloads.llama.pytorch")

    class Undrawn(Trainer):
        def _load(self):
            self.parameters = sum(weight.numel() for weight in self.model.parameters())

    def model(params):
        with FAKE:
            made = network.model(params)
        made.to = lambda *_, **__: made  # Fake weights cannot be swapped, and lie where they are.
        return made

    pipeline.PipelineStage = shaped(context)
    undrawn = SimpleNamespace(model=model, loss=network.loss)
    trainer = Undrawn(context, undrawn, importlib.import_module("workloads.llama.data"))
    if trainer.parameters != context.parameters:
        raise DoesNotFit(f"found {trainer.parameters} parameters")
    return trainer


class Replicated(parallel.DistributedDataParallel):
    """Has fake buckets, which a hook sums: PyTorch's own looks at what the group returns."""

    def __init__(self, model, **options):
        with FAKE:
            super().__init__(model, **options)
        self.register_comm_hook(None, self.summed)

    @staticmethod
    def summed(_, bucket):
        """The same exchange as without a hook."""
        dist.all_reduce(bucket.buffer())
        summed = torch.futures.Future()
        summed.set_result(bucket.buffer())
        return summed


class Shaped(PipelineStage):
    """Is given the shapes of what it takes and makes, as are all others."""

    def _warmup_forward_vote(self, *_, **__):
        return SimpleNamespace(item=lambda: 1)  # All say that they know.

    _warmup_backward_result = _warmup_forward_vote


def shaped(context):
    """Stages of a case, made as the trainer makes them."""
    params, case = context.params, context.case

    def stage(model, number, count, device, group):
        samples = case["batch_size_per_device"] * context.stages * context.tensor
        shape = samples // case["micro_batches"], params["sequence_length"]
        with FAKE:
            hidden, logits = (
                torch.empty(*shape, params[each], dtype=torch.bfloat16, requires_grad=True)
                for each in ("hidden", "vocabulary")
            )
            tokens = torch.empty(shape, dtype=torch.int64)
        known = {"input_args": tokens if number == 0 else hidden}
        known["output_args"] = logits if number == count - 1 else hidden
        return Shaped(model, number, count, device, group=group, **known)

    return stage


def held(tensors):
    """Bytes on this rank."""
    return sum(own(each).nbytes for each in tensors)


def own(tensor):
    """What of a tensor lies on this rank."""
    return getattr(tensor, "_local_tensor", tensor)


class Kept(torch.autograd.graph.saved_tensors_hooks):
    """Counts the bytes that autograd keeps, beside weights as they are; `most` at any time."""

    def __init__(self, weights_of):
        super().__init__(self.keep, lambda kept: kept.tensor)
        self.model, self.times = weights_of, collections.Counter()
        self.now = self.most = 0

    def __enter__(self):
        super().__enter__()
        return self

    def keep(self, tensor):
        """What autograd has in place of a tensor, as long as it needs it."""
        kept, storage = Saved(tensor), own(tensor).untyped_storage()
        weights = {own(each).untyped_storage()._cdata for each in self.model.parameters()}
        if storage._cdata not in weights:
            given = storage._cdata, storage.nbytes()
            self.count(*given, 1)
            weakref.finalize(kept, self.count, *given, -1)
        return kept

    def count(self, storage, size, times):
        """One tensor more, or less, with this storage."""
        self.times[storage] += times
        if self.times[storage] == max(times, 0):  # the first, or the last
            self.now += times * size
            self.most = max(self.most, self.now)


class Saved:
    """A tensor that autograd keeps."""

    def __init__(self, tensor):
        self.tensor = tensor


tuning.DistributedDataParallel = Replicated
parallel.distributed._verify_param_shape_across_processes = lambda *_: None  # Of all ranks.
for job, number in json.load(sys.stdin):
    print(json.dumps(dry_run(job, number)), flush=True)
