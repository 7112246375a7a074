"""Skip-gram with negative sampling in TensorFlow (Mikolov et al. 2013, arXiv:1310.4546)."""

import tensorflow as tf


def model(params):
    """The network: from its weights and a batch to the scores of a word's neighbour and others."""
    shape = params["vocabulary"], params["embedding_size"]

    def scores(scope, batch):
        words = tf.gather(scope.parameter("words.weight", *shape), batch["word"])
        others = tf.concat([batch["neighbour"], batch["negatives"]], 1)
        others = tf.gather(scope.parameter("neighbours.weight", *shape), others)
        return tf.reduce_sum(words * others, 2)  # (n, 1 + negatives), the neighbour's first

    return scores


def loss(model, batch):
    """Equation 4 of the paper: logistic losses of all scores of a word, the mean over words."""
    scores = tf.cast(model(batch), tf.float32)
    neighbour, negatives = scores[:, :1], scores[:, 1:]
    losses = tf.concat([tf.nn.softplus(-neighbour), tf.nn.softplus(negatives)], 1)
    return tf.reduce_mean(tf.reduce_sum(losses, 1))
