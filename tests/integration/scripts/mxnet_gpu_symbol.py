"""Prints the graph that a trainer of mxnet makes in mixed precision, and the losses of some steps.

    python mxnet_gpu_symbol.py CODE job.json trainer-0 STEPS

CODE is the folder of the benchmarks. A CPU has no products in float16, so that no step runs there.
Prints JSON: `casts`, operator -> the types that its inputs are cast to (null for none), and
`losses`.
"""

import collections
import json
import sys
import types

import mxnet
from node_trainer import trainer_of


def casts(graph):
    """Operator -> types that its inputs are cast to."""
    nodes = json.loads(graph.tojson(remove_amp_cast=False))["nodes"]
    found = collections.defaultdict(set)
    for node in nodes:
        for number, *_ in node["inputs"]:
            given = nodes[number]
            cast = given["op"] == "amp_cast"
            found[node["op"]].add(given["attrs"]["dtype"] if cast else None)
    return {op: sorted(types, key=str) for op, types in found.items()}


def main():
    code, job, name, steps = sys.argv[1:]
    runtime = types.SimpleNamespace(device=mxnet.cpu(), store=None, horovod=None)
    trainer = trainer_of(code, job, name, "mxnet", runtime)
    for _ in range(int(steps)):
        trainer.step()
    graph = trainer.model(mxnet.sym.var("images"))
    print(json.dumps({"casts": casts(graph), "losses": trainer.losses()}))


main()
