"""Prints what XLA's cost analysis makes of a forward pass, and of one with its backward.

    python jax_flops.py CODE < {workload: params}

CODE is the folder of the benchmarks. Programs are traced for their shapes, and none is run: models
have their published widths.
"""

import functools
import json
import os
import sys

(CODE,) = sys.argv[1:]
sys.path.insert(0, CODE)

import channels_last  # noqa: E402
import jax  # noqa: E402
import numpy  # noqa: E402
from frameworks.jax.trainer import Scope, Shapes  # noqa: E402
from rank import load_module  # noqa: E402

EXAMPLES = 2


def counted(workload, params):
    """FLOPs of one example: of a forward pass, and of that with its gradients."""
    folder = os.path.join(CODE, "workloads", workload)
    network, data = (
        load_module("counted_" + name, os.path.join(folder, name + ".py"))
        for name in ("jax", "data")
    )
    model, shapes = network.model(params), Shapes()
    batch = channels_last.batch(data.batch(params, EXAMPLES, numpy.random.RandomState(1)))
    jax.eval_shape(lambda: network.loss(functools.partial(model, shapes), batch))
    weights = {
        name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in shapes.parameters.items()
    }

    def loss(weights, batch):
        scope = Scope(weights, shapes.averages, jax.random.key(0))
        return network.loss(functools.partial(model, scope), batch)

    return [
        jax.jit(function).lower(weights, batch).cost_analysis()["flops"] / EXAMPLES
        for function in (loss, jax.grad(loss))
    ]


asked = json.load(sys.stdin)
print(json.dumps({workload: counted(workload, params) for workload, params in asked.items()}))
