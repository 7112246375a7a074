"""The weights of a network, created when its model file first asks for them."""

import tensorflow as tf


class Scope:
    """Trainable variables and running averages by name.

    Args:
        dtype: type that the network computes in; variables are float32.
    """

    def __init__(self, dtype=tf.float32):
        self.dtype = dtype
        self.weights, self.averages = {}, {}

    def parameter(self, name, *shape):
        """Return the weight of that name, in the type of the computation."""
        weight = _held(self.weights, name, shape, True)
        # A variable, not a tensor, so that the gradient of a gather is sparse.
        return weight if self.dtype == tf.float32 else tf.cast(weight, self.dtype)

    def average(self, name, value):
        """Update a running average for inference: 0.9 of the old average plus 0.1 of the value."""
        average = _held(self.averages, name, value.shape, False)
        return average.assign_sub(0.1 * (average - value))


def _held(variables, name, shape, trainable):
    if name not in variables:
        with tf.init_scope():
            variables[name] = tf.Variable(tf.zeros(shape), trainable, name=name)
    return variables[name]
