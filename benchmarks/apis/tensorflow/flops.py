"""FLOPs of a step, from the matrix products and convolutions in TensorFlow's traced graph."""

import numpy


def flops_of(graph):
    """Return the FLOPs of a graph with known shapes, including the functions that it calls."""
    return sum(_flops(each) for each in graph.get_operations())


def _flops(op):
    if op.type.endswith("PartitionedCall"):
        return flops_of(op.graph._get_function(op.get_attr("f").name).graph)
    # The gradient of images is not used, so TensorFlow does not compute it.
    if op.type not in SUMMED or not any(made.consumers() for made in op.outputs):
        return 0
    given = [numpy.array(each.shape.as_list(), dtype="object") for each in op.inputs]
    made = numpy.array(op.outputs[0].shape.as_list(), dtype="object")
    return int(2 * SUMMED[op.type](op, made, *given))


def _product(op, made, left, right):
    adjoint = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
    return made.prod() * left[-2 if adjoint else -1]


def _convolution(op, made, images, weight):
    return made.prod() * weight[:3].prod()


def _gradient_of_images(op, made, sizes, weight, gradient):
    return gradient.prod() * weight[:3].prod()


def _gradient_of_weight(op, made, images, sizes, gradient):
    return gradient.prod() * made[:3].prod()


SUMMED = {
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _product),
    "Conv2D": _convolution,
    "Conv2DBackpropInput": _gradient_of_images,
    "Conv2DBackpropFilter": _gradient_of_weight,
}
"""Operator -> function for its multiply-adds, from the shapes of result and inputs."""
