"""Llama's pre-training in JAX (Grattafiori et al. 2024, arXiv:2407.21783)."""

import jax
from jax import lax
from jax import numpy as jnp
from workloads.llama.data import EPSILON, rotations


def linear(scope, name, x, out):
    """A fully connected layer over the last dimension, without bias."""
    return x @ scope.parameter(name + ".weight", x.shape[-1], out)


def norm(scope, name, x):
    """An RMSNorm over the last dimension, in float32."""
    y = x.astype(jnp.float32)
    y = y * lax.rsqrt((y * y).mean(-1, keepdims=True) + EPSILON)
    return (y * scope.parameter(name + ".weight", x.shape[-1])).astype(x.dtype)


def rotate(x, table):
    """Rotate each head (n, length, heads, size) by the angles of its positions."""
    first, second = jnp.split(x, 2, axis=-1)
    cosines, sines = table[:, :, None, :]
    rotated = (first * cosines - second * sines, second * cosines + first * sines)
    return jnp.concatenate(rotated, axis=-1).astype(x.dtype)


def flash(x):
    """Return the attention kernel of the device: cuDNN's in half precision from Ampere on."""
    device = jax.local_devices()[0]
    half = x.dtype in (jnp.bfloat16, jnp.float16)
    if device.platform == "gpu" and half and float(device.compute_capability) >= 8.0:
        return "cudnn"
    return "xla"


def attention(query, key, value):
    """Return causal attention of heads (n, length, heads, size), concatenated."""
    y = jax.nn.dot_product_attention(query, key, value, is_causal=True, implementation=flash(query))
    return y.reshape(*y.shape[:2], -1)


def swiglu(scope, name, x, params):
    """Return the second half of a layer, from its normed input."""
    gate = jax.nn.silu(linear(scope, name + ".gate", x, params["inner"]))
    gate = gate * linear(scope, name + ".widen", x, params["inner"])
    return linear(scope, name + ".narrow", gate, params["hidden"])


def layer(scope, name, x, params, table, feed_forward):
    """Self-attention and SwiGLU; each takes a norm of its input and is added to it."""
    hidden = params["hidden"]
    size = hidden // params["heads"]

    def heads(part, count):
        return linear(scope, name + part, y, count * size).reshape(*y.shape[:2], count, size)

    y = norm(scope, name + ".norm1", x)
    query = rotate(heads(".query", params["heads"]), table)
    key = rotate(heads(".key", params["key_value_heads"]), table)
    value = heads(".value", params["key_value_heads"])
    x = x + linear(scope, name + ".attended", attention(query, key, value), hidden)
    return x + feed_forward(scope, name, norm(scope, name + ".norm2", x), params)


def model(params):
    """The network: from its weights and tokens (n, length) to logits (n, length, vocabulary)."""
    hidden, vocabulary = params["hidden"], params["vocabulary"]
    table = rotations(params)

    def logits(scope, tokens, feed_forward=swiglu):
        words = scope.parameter("words.weight", vocabulary, hidden)

        def named(name, x):
            return layer(scope, name, x, params, table, feed_forward)

        x = scope.by_layers(named, params["layers"], words[tokens])
        x = norm(scope, "norm", x)
        return x @ words.T if params["tied"] else linear(scope, "logits", x, vocabulary)

    return logits


def loss(model, batch):
    """Return the mean cross-entropy of the next tokens."""
    return cross_entropy(model(batch["tokens"]), batch)


def cross_entropy(logits, batch):
    """Return the mean cross-entropy over all tokens."""
    logits = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(logits, batch["labels"][..., None], axis=-1).mean()
