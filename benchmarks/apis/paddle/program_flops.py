"""FLOPs of a step of PaddlePaddle's static program, from the shapes of its products."""

import numpy


def product(y, made):
    """Return a product's multiply-adds; `y` has the summed dimension and the result's columns."""
    return made.size * (y.size // int(numpy.prod(y.shape[:-2])) // made.shape[-1])


def convolution(weight, made):
    """Return the multiply-adds of a convolution."""
    return made.size * int(numpy.prod(weight.shape[1:]))


SUMMED = {
    **dict.fromkeys(("mul", "matmul", "matmul_v2"), ("Y", "Out", product)),
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), ("Filter", "Output", convolution)),
}
"""Operator -> names of its second input and its result, and function for its multiply-adds."""


def count_step(trainer, program):
    """Run one more step and set `flops_per_step`; each gradient counts like its product.

    Args:
        trainer: its `step` calls the `run` of its `executor`.
        program: the program that `run` executes, before an executor has compiled it.
    """
    fetched, counted = [], []
    for op in program.global_block().ops:
        kind, gradient, _ = op.type.partition("_grad")
        if kind not in SUMMED:
            continue
        second, result, summed = SUMMED[kind]
        made = op.input(result + "@GRAD") if gradient else op.output(result)
        fetched += [*op.input(second), *made]
        wanted = [name for name in op.output_arg_names if name != "@EMPTY@"]
        counted.append((summed, len(wanted) if gradient else 1))
    run = trainer.executor.run

    def counting(_, feed, fetch_list):
        found = run(program, feed=feed, fetch_list=[*fetched, *fetch_list])
        values = iter(found)
        trainer.flops_per_step = sum(
            int(2 * count * summed(next(values), next(values))) for summed, count in counted
        )
        return found[len(fetched) :]

    trainer.executor.run = counting
    trainer.step()
    trainer.executor.run = run
