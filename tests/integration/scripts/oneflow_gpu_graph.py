"""Prints what a trainer of oneflow keeps in parts, by the graph that it makes for several ranks.

    python oneflow_gpu_graph.py CODE job.json trainer-0

CODE is the folder of the benchmarks; all ranks are started, each with what launch.py gives it. The
graph is made and not run: OneFlow's network between processes of a CPU has no way for parts. Prints
JSON: `split`, as the trainer tells it, and `kept`, variable -> how its parts lie.
"""

import json
import os
import sys
import types

import oneflow
from node_trainer import trainer_of


def main():
    code, job, name = sys.argv[1:]
    sys.path.insert(0, code)
    from frameworks.oneflow import torch_api

    torch_api.install()
    runtime = types.SimpleNamespace(device=oneflow.device("cpu"))
    trainer = trainer_of(code, job, name, "pytorch", runtime)
    trainer.graph.build_graph(next(trainer.batches))
    kept = {
        op.name: list(op.variable_conf.nd_sbp)
        for op in trainer.graph._full_graph_proto.net.op
        if op.HasField("variable_conf")
    }
    print(json.dumps({"split": trainer.is_split(), "kept": kept}), flush=True)
    oneflow.comm.barrier()  # A rank ends where another has gone.
    os._exit(0)  # A rank that ends in order waits for a step.


main()
