"""Prints the program of the loss that a trainer of paddle3 computes in mixed precision.

    python paddle_gpu_program.py CODE job.json trainer-0

CODE is the folder of the benchmarks. Eagerly PaddlePaddle leaves float32 alone on a CPU; the
program that it traces has the casts there too. Prints JSON: operator -> the types of what it gives.
"""

import collections
import importlib.util
import json
import os
import sys

CODE, JOB, NAME = sys.argv[1:]
with open(JOB) as stream:
    JOB = json.load(stream)
WORKLOAD = os.path.join(CODE, "workloads", JOB["case"]["workload"])
FRAMEWORK = os.path.join(CODE, "frameworks", JOB["case"]["framework"])
sys.path[:0] = [FRAMEWORK, CODE]

import paddle  # noqa: E402
import rank  # noqa: E402


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    with open(os.path.join(WORKLOAD, "spec.json")) as stream:
        spec = json.load(stream)
    context = rank.Context(JOB, NAME, {"ports": JOB["ports"]}, None, spec)
    trainer = load(os.path.join(FRAMEWORK, "trainer.py")).Trainer(
        context,
        load(os.path.join(WORKLOAD, "paddle.py")),
        load(os.path.join(WORKLOAD, "data.py")),
    )

    def loss(batch):
        return trainer.loss(batch)

    program = paddle.jit.to_static(loss, full_graph=True)
    program = program.get_concrete_program(next(trainer.batches))[0].main_program
    found = collections.defaultdict(set)
    for op in program.global_block().ops:
        for result in op.results():
            found[op.name()].add(str(result.dtype))
    print(json.dumps({op: sorted(types) for op, types in found.items()}))


main()
