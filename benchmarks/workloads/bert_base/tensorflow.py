"""BERT's pre-training in TensorFlow 1 and 2 (Devlin et al. 2018, arXiv:1810.04805)."""

import tensorflow as tf

EPSILON = 1e-12
"""Epsilon of the layer norms, as in the authors' code."""


def linear(scope, name, x, out):
    """A fully connected layer over the last dimension."""
    weight = scope.parameter(name + ".weight", x.shape[-1], out)
    y = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), weight) + scope.parameter(name + ".bias", out)
    return tf.reshape(y, [*x.shape[:-1], out])


def norm(scope, name, x):
    """A layer norm over the last dimension, in float32."""
    weights = [scope.parameter(name + part, x.shape[-1]) for part in (".weight", ".bias")]
    scale, bias = (tf.cast(weight, tf.float32) for weight in weights)
    y = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(y, [-1], keepdims=True)
    return tf.cast(tf.nn.batch_normalization(y, mean, variance, bias, scale, EPSILON), x.dtype)


def gelu(x):
    """GELU of Hendrycks and Gimpel 2016 (arXiv:1606.08415), by the error function."""
    return 0.5 * x * (1.0 + tf.math.erf(x * 2**-0.5))


def attention(scope, name, x, heads, dropout):
    """Return self-attention of all heads, concatenated: (n, length, hidden)."""
    n, length, hidden = x.shape
    split = tf.reshape(
        linear(scope, name + ".query_key_value", x, 3 * hidden),
        [n, length, 3, heads, hidden // heads],
    )
    query, key, value = tf.unstack(tf.transpose(split, [2, 0, 3, 1, 4]))
    scores = tf.matmul(query, key, transpose_b=True) * (hidden // heads) ** -0.5
    scores = tf.nn.dropout(tf.nn.softmax(scores), rate=dropout)
    return tf.reshape(tf.transpose(tf.matmul(scores, value), [0, 2, 1, 3]), x.shape)


def layer(scope, name, x, heads, dropout):
    """Self-attention and two fully connected layers; a layer norm follows each sum."""
    hidden = x.shape[-1]
    y = linear(scope, name + ".attended", attention(scope, name, x, heads, dropout), hidden)
    x = norm(scope, name + ".norm1", x + tf.nn.dropout(y, rate=dropout))
    y = gelu(linear(scope, name + ".widen", x, 4 * hidden))
    y = tf.nn.dropout(linear(scope, name + ".narrow", y, hidden), rate=dropout)
    return norm(scope, name + ".norm2", x + y)


def model(params):
    """The network: from its weights and a batch to logits of masked tokens and next sentence."""
    hidden, dropout, vocabulary = params["hidden"], params["dropout"], params["vocabulary"]

    def logits(scope, batch):
        tokens = batch["tokens"]
        words = scope.parameter("words.weight", vocabulary, hidden)
        positions = scope.parameter("positions.weight", params["positions"], hidden)
        segments = scope.parameter("segments.weight", 2, hidden)
        x = tf.gather(words, tokens) + positions[: tokens.shape[1]]
        x = norm(scope, "norm", x + tf.gather(segments, batch["segments"]))
        x = tf.nn.dropout(x, rate=dropout)
        for number in range(params["layers"]):
            x = layer(scope, "layers.{}".format(number), x, params["heads"], dropout)
        masked = tf.gather(x, batch["masked_positions"], batch_dims=1)
        masked = norm(scope, "transform_norm", gelu(linear(scope, "transform", masked, hidden)))
        masked = tf.reshape(masked, [-1, hidden])
        # The decoder is the transposed embedding of words.
        tokens = tf.matmul(masked, words, transpose_b=True)
        first = tf.tanh(linear(scope, "pooler", x[:, 0], hidden))
        bias = scope.parameter("vocabulary_bias", vocabulary)
        return tokens + bias, linear(scope, "next_sentence", first, 2)

    return logits


def cross_entropy(logits, labels):
    """Mean cross-entropy of rows of logits."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.cast(logits, tf.float32)
    )
    return tf.reduce_mean(losses)


def loss(model, batch):
    """Mean cross-entropy of the masked tokens, and that of the next sentence."""
    tokens, next_sentence = model(batch)
    masked = cross_entropy(tokens, tf.reshape(batch["masked_tokens"], [-1]))
    return masked + cross_entropy(next_sentence, batch["next_sentence"])
