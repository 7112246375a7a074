"""BERT's pre-training in JAX (Devlin et al. 2018, arXiv:1810.04805)."""

import jax
from jax import lax
from jax import numpy as jnp

EPSILON = 1e-12
"""Epsilon of the layer norms, as in the authors' code."""


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


def attention(scope, name, x, heads, dropout):
    """Return self-attention of all heads, concatenated: (n, length, hidden)."""
    n, length, hidden = x.shape
    split = linear(scope, name + ".query_key_value", x, 3 * hidden)
    query, key, value = split.reshape(n, length, 3, heads, -1).transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(2, 3) * (hidden // heads) ** -0.5
    scores = scope.dropout(jax.nn.softmax(scores), dropout)
    return (scores @ value).swapaxes(1, 2).reshape(x.shape)


def layer(scope, name, x, heads, dropout):
    """Self-attention and two fully connected layers; a layer norm follows each sum."""
    hidden = x.shape[-1]
    y = linear(scope, name + ".attended", attention(scope, name, x, heads, dropout), hidden)
    x = norm(scope, name + ".norm1", x + scope.dropout(y, dropout))
    y = jax.nn.gelu(linear(scope, name + ".widen", x, 4 * hidden), approximate=False)
    y = scope.dropout(linear(scope, name + ".narrow", y, hidden), dropout)
    return norm(scope, name + ".norm2", x + y)


def model(params):
    """The network: from its weights and a batch to logits of masked tokens and next sentence."""
    hidden, dropout, vocabulary = params["hidden"], params["dropout"], params["vocabulary"]

    def logits(scope, batch):
        words = scope.parameter("words.weight", vocabulary, hidden)
        positions = scope.parameter("positions.weight", params["positions"], hidden)
        segments = scope.parameter("segments.weight", 2, hidden)
        x = words[batch["tokens"]] + positions[: batch["tokens"].shape[1]]
        x = scope.dropout(norm(scope, "norm", x + segments[batch["segments"]]), dropout)
        for number in range(params["layers"]):
            x = layer(scope, "layers.{}".format(number), x, params["heads"], dropout)
        masked = jnp.take_along_axis(x, batch["masked_positions"][:, :, None], axis=1)
        masked = jax.nn.gelu(linear(scope, "transform", masked, hidden), approximate=False)
        masked = norm(scope, "transform_norm", masked)
        # The decoder is the transposed embedding of words.
        tokens = masked @ words.T + scope.parameter("vocabulary_bias", vocabulary)
        first = jnp.tanh(linear(scope, "pooler", x[:, 0], hidden))
        return tokens, linear(scope, "next_sentence", first, 2)

    return logits


def cross_entropy(logits, labels):
    """Mean cross-entropy over the last dimension of logits."""
    logits = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(logits, labels[..., None], axis=-1).mean()


def loss(model, batch):
    """Mean cross-entropy of the masked tokens, and that of the next sentence."""
    tokens, next_sentence = model(batch)
    masked = cross_entropy(tokens, batch["masked_tokens"])
    return masked + cross_entropy(next_sentence, batch["next_sentence"])
