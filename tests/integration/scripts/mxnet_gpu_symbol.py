"""Prints the graph that a trainer of mxnet makes in mixed precision, and the losses of some steps.

    python mxnet_gpu_symbol.py CODE job.json trainer-0 STEPS

CODE is the folder of the benchmarks. A CPU has no products in float16, so that no step runs there.
Prints JSON: `casts`, operator -> the types that its inputs are cast to (null for none), and
`losses`.
"""

import collections
import importlib.util
import json
import os
import sys
import types

CODE, JOB, NAME, STEPS = sys.argv[1:]
with open(JOB) as stream:
    JOB = json.load(stream)
WORKLOAD = os.path.join(CODE, "workloads", JOB["case"]["workload"])
FRAMEWORK = os.path.join(CODE, "frameworks", JOB["case"]["framework"])
sys.path[:0] = [FRAMEWORK, CODE]

import mxnet  # noqa: E402
import rank  # noqa: E402


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    with open(os.path.join(WORKLOAD, "spec.json")) as stream:
        spec = json.load(stream)
    context = rank.Context(JOB, NAME, {"ports": JOB["ports"]}, None, spec)
    context.runtime = types.SimpleNamespace(device=mxnet.cpu(), store=None, horovod=None)
    trainer = load(os.path.join(FRAMEWORK, "trainer.py")).Trainer(
        context,
        load(os.path.join(WORKLOAD, "mxnet.py")),
        load(os.path.join(WORKLOAD, "data.py")),
    )
    for _ in range(int(STEPS)):
        trainer.step()
    graph = trainer.model(mxnet.sym.var("images"))
    print(json.dumps({"casts": casts(graph), "losses": trainer.losses()}))


main()
