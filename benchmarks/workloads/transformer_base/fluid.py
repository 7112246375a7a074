"""The Transformer in Fluid, as a static graph (Vaswani et al. 2017, arXiv:1706.03762)."""

import numpy
from paddle.fluid import embedding, layers, one_hot
from workloads.transformer_base.data import LABEL_SMOOTHING, PADDING, positions

UNSEEN = -1e9
"""Value added to the scores of masked positions."""


def model(params):
    """The network: a function from sentences (n, length) to logits (n, length, vocabulary)."""
    hidden, heads, length = params["hidden"], params["heads"], params["sequence_length"]

    def linear(x, out, name, bias=False, activation=None):
        weight, bias = name + ".weight", name + ".bias" if bias else False
        return layers.fc(x, out, 2, act=activation, param_attr=weight, bias_attr=bias)

    def dropped(x):
        return layers.dropout(x, params["dropout"], dropout_implementation="upscale_in_train")

    def norm(x, name):
        weight, bias = name + ".norm.weight", name + ".norm.bias"
        return layers.layer_norm(x, begin_norm_axis=2, param_attr=weight, bias_attr=bias)

    def by_head(x):
        return layers.transpose(layers.reshape(x, [0, 0, heads, hidden // heads]), [0, 2, 1, 3])

    def attention(x, memory, unseen, name):
        query = by_head(linear(x, hidden, name + ".query"))
        both = linear(memory, 2 * hidden, name + ".key_value")
        key, value = (by_head(part) for part in layers.split(both, 2, dim=2))
        scale = (hidden // heads) ** -0.5
        scores = layers.matmul(query, key, transpose_y=True, alpha=scale) + unseen
        y = layers.transpose(layers.matmul(layers.softmax(scores), value), [0, 2, 1, 3])
        y = linear(layers.reshape(y, [0, 0, hidden]), hidden, name + ".attended")
        return norm(x + dropped(y), name)

    def inner(x, name):
        y = linear(x, params["inner"], name + ".widen", bias=True, activation="relu")
        return norm(x + dropped(linear(y, hidden, name + ".narrow", bias=True)), name)

    def embed(tokens):
        x = embedding(tokens, [params["vocabulary"], hidden], param_attr="words.weight")
        return dropped(x * hidden**0.5 + layers.assign(positions(params)))

    def logits(source, target):
        padding = layers.cast(source == PADDING, "float32") * UNSEEN
        padding = layers.unsqueeze(padding, [1, 2])
        later = layers.assign(numpy.triu(numpy.full((length, length), UNSEEN, "float32"), 1))
        memory = embed(source)
        for number in range(params["layers"]):
            name = "encoder.{}.".format(number)
            memory = inner(attention(memory, memory, padding, name + "own"), name + "inner")
        x = embed(target)
        for number in range(params["layers"]):
            # Padding is at the end, so words that attend only to earlier words never see it.
            name = "decoder.{}.".format(number)
            x = attention(x, x, later, name + "own")
            x = attention(x, memory, padding, name + "source")
            x = inner(x, name + "inner")
        words = layers.create_parameter(
            [params["vocabulary"], hidden], "float32", name="words.weight"
        )
        return layers.matmul(x, words, transpose_y=True)

    return logits


def loss(model, batch):
    """Mean cross-entropy of words that are not padding, against smoothed labels."""
    logits = model(batch["source"], batch["target"])
    labels = one_hot(batch["labels"], logits.shape[-1])
    labels = layers.label_smooth(labels, epsilon=LABEL_SMOOTHING)
    each = layers.softmax_with_cross_entropy(logits, labels, soft_label=True)
    words = layers.cast(batch["labels"] != PADDING, "float32")
    total = layers.reduce_sum(layers.squeeze(each, [2]) * words)
    return total / layers.reduce_sum(words)
