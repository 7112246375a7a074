"""VGG-16 in JAX (Simonyan and Zisserman 2014, arXiv:1409.1556, configuration D)."""

import jax
from jax import lax
from jax import numpy as jnp

GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Widths of the 3x3 convolutions between two poolings."""


def convolution(scope, number, x, out):
    """A convolution of 3x3 with bias."""
    name = "convolutions.{}.".format(number)
    kernel = scope.parameter(name + "weight", 3, 3, x.shape[-1], out)
    layout = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)
    return y + scope.parameter(name + "bias", out)


def connected(scope, number, x, out):
    """A fully connected layer."""
    name = "connected.{}.".format(number)
    weight = scope.parameter(name + "weight", x.shape[1], out)
    return x @ weight + scope.parameter(name + "bias", out)


def features(x):
    """Return the 7x7 feature map flattened in data.py's order: (n, channel x row x column).

    Images of 224x224 give 7x7. Images of 32x32 give 1x1, which is repeated.
    """
    if x.shape[1] == 1:
        x = jnp.tile(x, (1, 7, 7, 1))
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


def model(params):
    """The network: a function from its weights and images (n, size, size, 3) to logits."""

    def logits(scope, x):
        number = 0
        for group in GROUPS:
            for width in group:
                x = jax.nn.relu(convolution(scope, number, x, width))
                number += 1
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = features(x)
        for number in range(2):
            x = jax.nn.relu(connected(scope, number, x, 4096))
            x = scope.dropout(x, params["dropout"])
        return connected(scope, 2, x, params["classes"])

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    logits = jax.nn.log_softmax(model(batch["images"]).astype(jnp.float32))
    return -jnp.take_along_axis(logits, batch["labels"][:, None], axis=1).mean()
