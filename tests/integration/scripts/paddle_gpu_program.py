"""Prints the program of the loss that a trainer of paddle3 computes in mixed precision.

    python paddle_gpu_program.py CODE job.json trainer-0 [network]

CODE is the folder of the benchmarks. Eagerly PaddlePaddle leaves float32 alone on a CPU; the
program that it traces has the casts there too, and parameters are cast as for a GPU. At level O2
losses are of 16 bits, for which a CPU has no operator: `network` leaves the loss out. Prints JSON:
operator -> the types of what it gives, and `multi_precision`, whether float32 is updated.
"""

import collections
import json
import sys
import types
from unittest import mock

import paddle
from node_trainer import trainer_of


def as_for_a_gpu(decorate):
    """`paddle.amp.decorate` that does not ask which device there is."""
    place = types.SimpleNamespace(
        is_gpu_place=lambda: True, is_xpu_place=lambda: False, is_custom_place=lambda: False
    )
    of_gpu = {
        "_dygraph_tracer": lambda: types.SimpleNamespace(_expected_place=place),
        "_is_gpu_bfloat16_supported": lambda: True,
    }

    def decorated(*args, **named):
        with mock.patch.multiple(sys.modules["paddle.amp.auto_cast"], **of_gpu):
            return decorate(*args, **named)

    return decorated


def main():
    paddle.amp.decorate = as_for_a_gpu(paddle.amp.decorate)
    trainer = trainer_of(*sys.argv[1:4], "paddle")

    def loss(batch):
        return trainer.loss(batch)

    def network(batch):
        with trainer.autocast():
            return trainer.model(batch["images"])

    program = paddle.jit.to_static(network if sys.argv[4:] else loss, full_graph=True)
    program = program.get_concrete_program(next(trainer.batches))[0].main_program
    found = collections.defaultdict(set)
    for op in program.global_block().ops:
        for result in op.results():
            found[op.name()].add(str(result.dtype))
    said = {op: sorted(types) for op, types in found.items()}
    print(json.dumps({**said, "multi_precision": trainer.optimizer._multi_precision}))


main()
