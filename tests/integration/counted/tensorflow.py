"""Two layers beside each other in TensorFlow."""

import tensorflow as tf


def model(params):
    """The network: from its weights and a batch's inputs to outputs (n, 16)."""

    def outputs(scope, batch):
        names = ("a.weight", "b.weight")
        return tf.concat([tf.matmul(batch["x"], scope.parameter(n, 4, 8)) for n in names], 1)

    return outputs


def loss(model, batch):
    """Mean over the batch of the sum of all outputs."""
    return tf.reduce_mean(tf.reduce_sum(model(batch), 1))
