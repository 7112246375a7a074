"""GPT-2's pre-training in JAX (Radford et al. 2019)."""

import jax
from jax import lax
from jax import numpy as jnp
from workloads.gpt2.data import EPSILON
from workloads.llama.jax import attention, loss

__all__ = ["loss", "model"]


def linear(scope, name, x, out):
    """A fully connected layer over the last dimension."""
    weight = scope.parameter(name + ".weight", x.shape[-1], out)
    return x @ weight + scope.parameter(name + ".bias", out)


def norm(scope, name, x):
    """A layer norm over the last dimension, in float32."""
    scale, bias = (scope.parameter(name + part, x.shape[-1]) for part in (".weight", ".bias"))
    y = x.astype(jnp.float32)
    y = (y - y.mean(-1, keepdims=True)) * lax.rsqrt(y.var(-1, keepdims=True) + EPSILON)
    return (y * scale + bias).astype(x.dtype)


def layer(scope, name, x, heads):
    """Self-attention and two fully connected layers; each is added to its input."""
    n, length, hidden = x.shape
    split = linear(scope, name + ".query_key_value", norm(scope, name + ".norm1", x), 3 * hidden)
    query, key, value = split.reshape(n, length, 3, heads, -1).transpose(2, 0, 1, 3, 4)
    x = x + linear(scope, name + ".attended", attention(query, key, value), hidden)
    y = linear(scope, name + ".widen", norm(scope, name + ".norm2", x), 4 * hidden)
    return x + linear(scope, name + ".narrow", jax.nn.gelu(y, approximate=True), hidden)


def model(params):
    """The network: from its weights and tokens (n, length) to logits (n, length, vocabulary)."""
    hidden, vocabulary = params["hidden"], params["vocabulary"]

    def logits(scope, tokens):
        words = scope.parameter("words.weight", vocabulary, hidden)
        positions = scope.parameter("positions.weight", params["positions"], hidden)
        x = words[tokens] + positions[: tokens.shape[1]]
        for number in range(params["layers"]):
            x = layer(scope, "layers.{}".format(number), x, params["heads"])
        return norm(scope, "norm", x) @ words.T

    return logits
