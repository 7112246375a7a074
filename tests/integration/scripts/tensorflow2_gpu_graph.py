"""Prints the graph of a step of a trainer of tensorflow2, as it is for a GPU too.

    python tensorflow2_gpu_graph.py CODE job.json ...

CODE is the folder of the benchmarks. Precisions are casts of the trainer's own, and the graph has
them on every device. Prints a line of JSON for each job: `types`, operator -> the types that it
computes in; `compiled`, the functions that XLA must compile; `tf32`, whether products are allowed
it.
"""

import collections
import json
import sys

import tensorflow as tf
from node_trainer import trainer_of

CODE, *JOBS = sys.argv[1:]


def graph_of(trainer):
    """Types by operator, and the functions that XLA must compile."""
    step = trainer.train.get_concrete_function(next(trainer.batches))
    definition = step.graph.as_graph_def()
    types, compiled = collections.defaultdict(set), set()
    nodes = list(definition.node)
    for function in [step.function_def, *definition.library.function]:
        nodes.extend(function.node_def)
        if function.attr["_XlaMustCompile"].b:
            compiled.add(
                function.signature.name.rpartition("__inference_")[2].rstrip("_0123456789")
            )
    for node in nodes:
        for name in ("T", "dtype"):
            if name in node.attr:
                types[node.op].add(tf.as_dtype(node.attr[name].type).name)
    return {op: sorted(each) for op, each in types.items()}, sorted(compiled)


for path in JOBS:
    trainer = trainer_of(CODE, path, "trainer-0", "tensorflow")
    types, compiled = graph_of(trainer)
    tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    print(json.dumps({"types": types, "compiled": compiled, "tf32": tf32}), flush=True)
