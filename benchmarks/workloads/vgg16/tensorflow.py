"""VGG-16 in TensorFlow 1 and 2 (Simonyan and Zisserman 2014, arXiv:1409.1556, D)."""

import tensorflow as tf

GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Widths of the 3x3 convolutions between two poolings."""


def convolution(scope, number, x, out):
    """A convolution of 3x3 with bias."""
    name = "convolutions.{}.".format(number)
    kernel = scope.parameter(name + "weight", 3, 3, x.shape[-1], out)
    return tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "SAME"), scope.parameter(name + "bias", out))


def connected(scope, number, x, out):
    """A fully connected layer."""
    name = "connected.{}.".format(number)
    weight = scope.parameter(name + "weight", x.shape[1], out)
    return tf.matmul(x, weight) + scope.parameter(name + "bias", out)


def features(x):
    """Return the 7x7 feature map flattened in data.py's order: (n, channel x row x column).

    Images of 224x224 give 7x7. Images of 32x32 give 1x1, which is repeated.
    """
    if x.shape[1] == 1:
        x = tf.tile(x, [1, 7, 7, 1])
    return tf.reshape(tf.transpose(x, [0, 3, 1, 2]), [x.shape[0], 7 * 7 * x.shape[-1]])


def model(params):
    """The network: a function from its weights and images (n, size, size, 3) to logits."""

    def logits(scope, x):
        number = 0
        for group in GROUPS:
            for width in group:
                x = tf.nn.relu(convolution(scope, number, x, width))
                number += 1
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = features(x)
        for number in range(2):
            x = tf.nn.relu(connected(scope, number, x, 4096))
            x = tf.nn.dropout(x, rate=params["dropout"])
        return connected(scope, 2, x, params["classes"])

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    logits = tf.cast(model(batch["images"]), tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch["labels"], logits=logits)
    return tf.reduce_mean(losses)
