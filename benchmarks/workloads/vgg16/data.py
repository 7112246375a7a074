"""Synthetic images and the initial weights of VGG-16."""

import numpy
from readers.image_folder import batch, read

__all__ = ["batch", "read", "weights"]

GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Widths of the 3x3 convolutions between two poolings."""


def weights(params, random):
    """Name -> initial value; convolutions are (out, in, height, width), matrices (in, out)."""
    named = {}
    channels = 3
    for number, out in enumerate(width for group in GROUPS for width in group):
        name = "convolutions.{}.".format(number)
        # He et al. 2015 (arXiv:1502.01852), fan-out: 16 layers without batch norm need it.
        deviation = (2.0 / (out * 9)) ** 0.5
        named[name + "weight"] = random.standard_normal((out, channels, 3, 3)) * deviation
        named[name + "bias"] = numpy.zeros(out)
        channels = out
    # A feature map of 7x7 is flattened as (channel, row, column).
    widths = [channels * 7 * 7, 4096, 4096, params["classes"]]
    for number, pair in enumerate(zip(widths, widths[1:])):
        name = "connected.{}.".format(number)
        named[name + "weight"] = (random.standard_normal(pair) * 0.01).astype("float32")
        named[name + "bias"] = numpy.zeros(pair[1])
    return named
