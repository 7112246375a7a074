"""Prints what a trainer of jax has XLA compile for a GPU, where there is none.

    python jax_gpu_program.py CODE job.json ...

CODE is the folder of the benchmarks. A step is lowered for CUDA, and nothing is compiled or run.
Prints a line of JSON for each job: `products`, operator -> what its products are: the types of both
factors and of the result, and the precision that is asked of the device; `state`, the types of what
a step leaves.
"""

import collections
import json
import re
import sys

import jax
from node_trainer import trainer_of

CODE, *JOBS = sys.argv[1:]
jax.config.update("jax_platforms", "cpu")
PRODUCT = re.compile(r"stablehlo\.(dot_general|convolution)\b")
PRECISION = re.compile(r"precision(?:_config)? = \[(?:#stablehlo<precision )?(\w+)>?, ")
ELEMENT = re.compile(r"tensor<(?:[0-9]+x)*(\w+)>")


def products(program):
    """Operator -> its products, as the program of StableHLO says it."""
    found = collections.defaultdict(set)
    for line in program.splitlines():
        operator = PRODUCT.search(line)
        if operator:
            asked = PRECISION.search(line)
            types = ELEMENT.findall(line.rpartition(" : ")[2])
            found[operator[1]].add(" ".join([*types, asked[1] if asked else "DEFAULT"]))
    return {name: sorted(each) for name, each in found.items()}


for path in JOBS:
    trainer = trainer_of(CODE, path, "trainer-0", "jax")
    batch = next(trainer.batches)
    lowered = trainer.train.trace(trainer.state, batch).lower(lowering_platforms=("cuda",))
    state, loss = lowered.out_info
    left = {name: sorted({str(x.dtype) for x in jax.tree.leaves(state[name])}) for name in state}
    said = {"products": products(lowered.as_text()), "state": {**left, "loss": str(loss.dtype)}}
    print(json.dumps(said), flush=True)
