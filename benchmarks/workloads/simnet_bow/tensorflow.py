"""SimNet-BOW in TensorFlow: how well titles answer a query, by bags of words."""

import tensorflow as tf

MARGIN = 0.1
"""Minimum difference of cosines by which a title that answers must be nearer."""


def cosine(a, b):
    """Return the cosines of rows; as in PyTorch, lengths are at least 1e-8."""
    lengths = [tf.maximum(tf.norm(each, axis=1), 1e-8) for each in (a, b)]
    return tf.reduce_sum(a * b, 1) / (lengths[0] * lengths[1])


def model(params):
    """The network: from its weights and a batch to the cosines of a query with either title."""
    size, hidden = params["embedding_size"], params["hidden"]

    def connected(scope, name, x):
        weight = scope.parameter(name + ".weight", size, hidden)
        return tf.matmul(x, weight) + scope.parameter(name + ".bias", hidden)

    def bag(scope, words):
        table = scope.parameter("words.weight", params["vocabulary"], size)
        return tf.nn.softsign(tf.reduce_sum(tf.gather(table, words), 1))

    def cosines(scope, batch):
        query = connected(scope, "query", bag(scope, batch["query"]))
        titles = (
            connected(scope, "title", bag(scope, batch[name])) for name in ("answer", "other")
        )
        return [cosine(query, title) for title in titles]

    return cosines


def loss(model, batch):
    """Mean hinge loss of a batch."""
    answer, other = model(batch)
    return tf.reduce_mean(tf.nn.relu(MARGIN - answer + other))
