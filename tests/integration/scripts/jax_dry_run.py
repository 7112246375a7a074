"""Prints what a device of many holds at full size, by the shapes of a trainer's state.

    python jax_dry_run.py CODE < jobs.json

As pytorch_dry_run.py, with as many fake devices of this one process as there are ranks. Nothing is
drawn, placed or stepped.
"""

import importlib
import json
import math
import os
import sys

sys.path.insert(0, sys.argv[1])
JOBS = json.load(sys.stdin)
DEVICES = len(JOBS[0][0]["processes"])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"

import jax  # noqa: E402
import numpy  # noqa: E402
import rank  # noqa: E402
from frameworks.jax import trainer as line  # noqa: E402
from jax.sharding import NamedSharding  # noqa: E402


class Undrawn(line.Trainer):
    """The line's own trainer, whose state has shapes and shardings alone."""

    def _initial(self, shapes):
        self.parameters = sum(map(math.prod, shapes.values()))
        return {name: numpy.broadcast_to(numpy.float32(0), each) for name, each in shapes.items()}

    def feed(self, place):
        """Nothing."""


def dry_run(job, number):
    """Bytes of weights and optimizer states."""
    spec = rank.read_json(os.path.join(sys.argv[1], "workloads", "llama", "spec.json"))
    context = rank.Context(job, f"trainer-{number}", {"ports": {}}, None, spec)
    network, data = (importlib.import_module("workloads.llama." + x) for x in ("jax", "data"))
    trainer = Undrawn(context, network, data)
    assert trainer.parameters == context.parameters
    named = {"weights": "weights", "optimizer states": "slots"}
    return {part: held(trainer.state[key]) for part, key in named.items()}


def held(tree):
    """Bytes on one device."""
    return sum(
        math.prod(each.sharding.shard_shape(each.shape)) * each.dtype.itemsize
        for each in jax.tree.leaves(tree)
    )


def placed(mesh, value, spec):
    """An array's shape and sharding."""
    sharding = NamedSharding(mesh, spec)
    return jax.ShapeDtypeStruct(numpy.shape(value), value.dtype, sharding=sharding)


line._part = placed
numpy.zeros_like = lambda like, dtype: numpy.broadcast_to(dtype(0), like.shape)
numpy.stack = lambda parts: numpy.broadcast_to(numpy.float32(0), (len(parts), *parts[0].shape))
for job, number in JOBS:
    print(json.dumps(dry_run(job, number)), flush=True)
