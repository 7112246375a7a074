"""Prints the program of the loss that a trainer of paddle3 computes in mixed precision.

    python paddle_gpu_program.py CODE job.json trainer-0

CODE is the folder of the benchmarks. Eagerly PaddlePaddle leaves float32 alone on a CPU; the
program that it traces has the casts there too. Prints JSON: operator -> the types of what it gives.
"""

import collections
import json
import sys

import paddle
from node_trainer import trainer_of


def main():
    trainer = trainer_of(*sys.argv[1:], "paddle")

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
