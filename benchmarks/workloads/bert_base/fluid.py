"""BERT's pre-training in Fluid, as a static graph (Devlin et al. 2018, arXiv:1810.04805)."""

from paddle.fluid import embedding, layers

EPSILON = 1e-12
"""Epsilon of the layer norms, as in the authors' code."""


def linear(x, out, name, activation=None, dimensions=2):
    """A fully connected layer over the last dimension of a batch of sequences."""
    weight, bias = name + ".weight", name + ".bias"
    return layers.fc(x, out, dimensions, act=activation, param_attr=weight, bias_attr=bias)


def norm(x, name):
    """A layer norm over the last dimension of a batch of sequences."""
    return layers.layer_norm(
        x,
        begin_norm_axis=2,
        epsilon=EPSILON,
        param_attr=name + ".weight",
        bias_attr=name + ".bias",
    )


def taken(x, positions):
    """Pick each sequence's positions: from (n, length, hidden) to (n, count, hidden)."""
    # The rows of all sequences follow each other: every `length` rows a sequence begins.
    ones = layers.fill_constant_batch_size_like(positions, [-1, positions.shape[1]], "int64", 1)
    rows = positions + layers.cumsum(ones, axis=0, exclusive=True) * x.shape[1]
    found = layers.gather(
        layers.reshape(x, [-1, x.shape[2]]), layers.reshape(rows, [-1]), overwrite=False
    )
    return layers.reshape(found, [-1, positions.shape[1], x.shape[2]])


def model(params):
    """The network: a function from a batch to logits of masked tokens and next sentence."""
    hidden, heads, vocabulary = params["hidden"], params["heads"], params["vocabulary"]

    def dropped(x):
        return layers.dropout(x, params["dropout"], dropout_implementation="upscale_in_train")

    def by_head(x):
        return layers.transpose(layers.reshape(x, [0, 0, heads, hidden // heads]), [0, 2, 1, 3])

    def attention(x, name):
        both = layers.split(linear(x, 3 * hidden, name + ".query_key_value"), 3, dim=2)
        query, key, value = (by_head(part) for part in both)
        scale = (hidden // heads) ** -0.5
        scores = layers.softmax(layers.matmul(query, key, transpose_y=True, alpha=scale))
        y = layers.transpose(layers.matmul(dropped(scores), value), [0, 2, 1, 3])
        return linear(layers.reshape(y, [0, 0, hidden]), hidden, name + ".attended")

    def layer(x, name):
        x = norm(x + dropped(attention(x, name)), name + ".norm1")
        y = linear(linear(x, 4 * hidden, name + ".widen", "gelu"), hidden, name + ".narrow")
        return norm(x + dropped(y), name + ".norm2")

    def table(name, rows):
        return layers.create_parameter([rows, hidden], "float32", name=name + ".weight")

    def logits(batch):
        tokens = batch["tokens"]
        x = embedding(tokens, [vocabulary, hidden], param_attr="words.weight")
        x = x + layers.slice(table("positions", params["positions"]), [0], [0], [tokens.shape[1]])
        x = x + embedding(batch["segments"], [2, hidden], param_attr="segments.weight")
        x = dropped(norm(x, "norm"))
        for number in range(params["layers"]):
            x = layer(x, "layers.{}".format(number))
        masked = linear(taken(x, batch["masked_positions"]), hidden, "transform", "gelu")
        masked = norm(masked, "transform_norm")
        # The decoder is the transposed embedding of words.
        words = layers.matmul(masked, table("words", vocabulary), transpose_y=True)
        bias = layers.create_parameter(
            [vocabulary], "float32", name="vocabulary_bias", is_bias=True
        )
        first = layers.reshape(layers.slice(x, [1], [0], [1]), [-1, hidden])
        first = linear(first, hidden, "pooler", "tanh", dimensions=1)
        return words + bias, linear(first, 2, "next_sentence", dimensions=1)

    return logits


def cross_entropy(logits, labels):
    """Mean cross-entropy over the last dimension of logits."""
    labels = layers.unsqueeze(labels, [len(labels.shape)])
    return layers.mean(layers.softmax_with_cross_entropy(logits, labels))


def loss(model, batch):
    """Mean cross-entropy of the masked tokens, and that of the next sentence."""
    words, next_sentence = model(batch)
    masked = cross_entropy(words, batch["masked_tokens"])
    return masked + cross_entropy(next_sentence, batch["next_sentence"])
