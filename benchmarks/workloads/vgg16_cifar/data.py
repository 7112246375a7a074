"""Synthetic images and the initial weights of VGG-16 for CIFAR-10."""

import numpy
from readers.image_folder import read

__all__ = ["batch", "read", "weights"]

WIDTHS = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
"""Widths of the 3x3 convolutions."""


def batch(params, batch_size, random):
    """Return images (n, 3, size, size) of normal noise, and labels (n).

    An image is brighter in the rows that belong to its label, which can be learnt.
    """
    size, classes = params["image_size"], params["classes"]
    images = random.standard_normal((batch_size, 3, size, size))
    labels = random.randint(0, classes, batch_size)
    belongs = numpy.arange(size) * classes // size == labels[:, None]
    images += belongs[:, None, :, None]
    return {"images": images.astype("float32"), "labels": labels.astype("int64")}


def weights(params, random):
    """Name -> initial value; convolutions are (out, in, height, width), matrices (in, out)."""
    named = {}

    def norm(name, width):
        named[name + ".weight"] = numpy.ones(width)
        named[name + ".bias"] = numpy.zeros(width)

    channels = 3
    for number, out in enumerate(WIDTHS):
        name = "convolutions.{}".format(number)
        # He et al. 2015 (arXiv:1502.01852), by fan-out.
        deviation = (2.0 / (out * 9)) ** 0.5
        named[name + ".0.weight"] = random.standard_normal((out, channels, 3, 3)) * deviation
        norm(name + ".1", out)
        channels = out
    for name, out in (("hidden1", 512), ("hidden2", 512), ("head", params["classes"])):
        limit = (6.0 / (channels + out)) ** 0.5  # Glorot and Bengio 2010
        named[name + ".weight"] = random.uniform(-limit, limit, (channels, out))
        if name == "hidden1":
            norm("norm", out)
        else:
            named[name + ".bias"] = numpy.zeros(out)
        channels = out
    return named
