"""Synthetic images and the initial weights of SE-ResNeXt-50 32x4d."""

import numpy
from readers.image_folder import batch, read

__all__ = ["batch", "read", "weights"]

STAGES = ((128, 3), (256, 4), (512, 6), (1024, 3))
"""Width of the grouped 3x3 convolution, number of blocks."""
GROUPS = 32
REDUCTION = 16


def weights(params, random):
    """Name -> initial value; convolutions (out, in / groups, height, width), matrices (in, out)."""
    named = {}

    def convolution(name, channels, out, size, groups=1, scale=1.0):
        # He et al. 2015 (arXiv:1502.01852), by fan-out; the batch norm follows.
        deviation = (2.0 * groups / (out * size * size)) ** 0.5
        shape = (out, channels // groups, size, size)
        named[name + ".0.weight"] = random.standard_normal(shape) * deviation
        named[name + ".1.weight"] = numpy.full(out, scale)
        named[name + ".1.bias"] = numpy.zeros(out)

    def linear(name, width, out):
        limit = width**-0.5
        named[name + ".weight"] = random.uniform(-limit, limit, (width, out))
        named[name + ".bias"] = random.uniform(-limit, limit, out)

    convolution("stem", 3, 64, 7)
    channels, number = 64, 0
    for width, blocks in STAGES:
        out = 2 * width
        for index in range(blocks):
            block = "blocks.{}.".format(number)
            convolution(block + "conv1", channels, width, 1)
            convolution(block + "conv2", width, width, 3, GROUPS)
            # Blocks begin as identities (Goyal et al. 2017, arXiv:1706.02677): more stable.
            convolution(block + "conv3", width, out, 1, scale=0.0)
            linear(block + "squeeze", out, out // REDUCTION)
            linear(block + "excite", out // REDUCTION, out)
            if index == 0:
                convolution(block + "shortcut", channels, out, 1)
            channels, number = out, number + 1
    linear("head", channels, params["classes"])
    return named
