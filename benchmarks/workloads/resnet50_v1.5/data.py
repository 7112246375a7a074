"""Synthetic images and the initial weights of ResNet-50 v1.5."""

import numpy
from readers.image_folder import batch, read

__all__ = ["batch", "read", "weights"]

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width of the 3x3 convolution, number of blocks."""


def weights(params, random):
    """Name -> initial value; convolutions are (out, in, height, width), the head (in, out)."""
    named = {}

    def convolution(name, channels, out, size, scale=1.0):
        # He et al. 2015 (arXiv:1502.01852), by fan-out; the batch norm follows.
        deviation = (2.0 / (out * size * size)) ** 0.5
        named[name + ".0.weight"] = random.standard_normal((out, channels, size, size)) * deviation
        named[name + ".1.weight"] = numpy.full(out, scale)
        named[name + ".1.bias"] = numpy.zeros(out)

    convolution("stem", 3, 64, 7)
    channels, number = 64, 0
    for width, blocks in STAGES:
        for index in range(blocks):
            block = "blocks.{}.".format(number)
            convolution(block + "conv1", channels, width, 1)
            convolution(block + "conv2", width, width, 3)
            # Blocks begin as identities (Goyal et al. 2017, arXiv:1706.02677): more stable.
            convolution(block + "conv3", width, 4 * width, 1, scale=0.0)
            if index == 0:
                convolution(block + "shortcut", channels, 4 * width, 1)
            channels, number = 4 * width, number + 1
    limit = channels**-0.5
    named["head.weight"] = random.uniform(-limit, limit, (channels, params["classes"]))
    named["head.bias"] = random.uniform(-limit, limit, params["classes"])
    return named
