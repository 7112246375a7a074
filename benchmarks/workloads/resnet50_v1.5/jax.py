"""ResNet-50 v1.5 in JAX (He et al. 2015, arXiv:1512.03385)."""

import jax
from jax import lax
from jax import numpy as jnp

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width of the 3x3 convolution, number of blocks, stride of the first block."""


def convolution(scope, name, x, out, size, stride=1):
    """A convolution without bias and its batch norm."""
    kernel = scope.parameter(name + ".0.weight", size, size, x.shape[-1], out)
    padding = [(size // 2, size // 2)] * 2
    layout = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=layout)
    return batch_norm(scope, name + ".1", y)


def batch_norm(scope, name, x):
    """Normalise each channel over the batch, in float32."""
    scale, bias = (scope.parameter(name + part, x.shape[-1]) for part in (".weight", ".bias"))
    y = x.astype(jnp.float32)
    mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
    scope.average(name + ".running_mean", mean)
    scope.average(name + ".running_var", variance)
    return ((y - mean) * (lax.rsqrt(variance + 1e-5) * scale) + bias).astype(x.dtype)


def bottleneck(scope, name, x, width, stride):
    """1x1, 3x3 (with the stride: this is what makes it v1.5), 1x1 to four times the width."""
    y = jax.nn.relu(convolution(scope, name + ".conv1", x, width, 1))
    y = jax.nn.relu(convolution(scope, name + ".conv2", y, width, 3, stride))
    y = convolution(scope, name + ".conv3", y, 4 * width, 1)
    if stride != 1 or x.shape[-1] != 4 * width:
        x = convolution(scope, name + ".shortcut", x, 4 * width, 1, stride)
    return jax.nn.relu(y + x)


def model(params):
    """The network: a function from its weights and images (n, size, size, 3) to logits."""

    def logits(scope, images):
        x = jax.nn.relu(convolution(scope, "stem", images, 64, 7, 2))
        edges = [(0, 0), (1, 1), (1, 1), (0, 0)]
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), edges)
        number = 0
        for width, blocks, stride in STAGES:
            for index in range(blocks):
                name = "blocks.{}".format(number)
                x = bottleneck(scope, name, x, width, stride if index == 0 else 1)
                number += 1
        weight = scope.parameter("head.weight", x.shape[-1], params["classes"])
        return x.mean((1, 2)) @ weight + scope.parameter("head.bias", params["classes"])

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    logits = jax.nn.log_softmax(model(batch["images"]).astype(jnp.float32))
    return -jnp.take_along_axis(logits, batch["labels"][:, None], axis=1).mean()
