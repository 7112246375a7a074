"""Synthetic images and the initial weights of VGG-16."""

import numpy
from readers import image_folder

GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Widths of the 3x3 convolutions between two poolings."""


def batch(params, batch_size, random):
    """Images (n, 3, size, size) of normal noise, and labels (n)."""
    shape = (batch_size, 3, params["image_size"], params["image_size"])
    return {
        "images": random.standard_normal(shape).astype("float32"),
        "labels": random.randint(0, params["classes"], batch_size).astype("int64"),
    }


def read(params, batch_size, part, random):
    """Batches of a folder of images, as `batch` makes them."""
    size, classes = params["image_size"], params["classes"]
    return image_folder.batches(size, classes, batch_size, part, random)


def weights(params, random):
    """Name -> initial value; convolutions are (out, in, height, width), matrices (in, out)."""
    named = {}
    channels = 3
    for number, out in enumerate(width for group in GROUPS for width in group):
        name = "convolutions.{}.".format(number)
        # He et al. 2015 (arXiv:1502.01852), by fan-out: without batch norm 16 layers need it.
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
