"""ResNet-50 v1.5 in TensorFlow 1 and 2 (He et al. 2015, arXiv:1512.03385)."""

import tensorflow as tf

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width of the 3x3 convolution, number of blocks, stride of the first block."""


def padding(size):
    """Return equal padding on both sides, as in PyTorch; SAME would pad one side more."""
    return [[0, 0], [size, size], [size, size], [0, 0]]


def convolution(scope, name, x, out, size, stride=1):
    """A convolution without bias and its batch norm."""
    kernel = scope.parameter(name + ".0.weight", size, size, x.shape[-1], out)
    y = tf.nn.conv2d(x, kernel, [1, stride, stride, 1], padding(size // 2))
    return batch_norm(scope, name + ".1", y)


def batch_norm(scope, name, x):
    """Normalise each channel over the batch; its weights are float32."""
    weights = [scope.parameter(name + part, x.shape[-1]) for part in (".weight", ".bias")]
    scale, bias = (tf.cast(weight, tf.float32) for weight in weights)
    y, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, scale, bias, epsilon=1e-5)
    scope.average(name + ".running_mean", mean)
    scope.average(name + ".running_var", variance)
    return y


def bottleneck(scope, name, x, width, stride):
    """1x1, 3x3 (with the stride: this is what makes it v1.5), 1x1 to four times the width."""
    y = tf.nn.relu(convolution(scope, name + ".conv1", x, width, 1))
    y = tf.nn.relu(convolution(scope, name + ".conv2", y, width, 3, stride))
    y = convolution(scope, name + ".conv3", y, 4 * width, 1)
    if stride != 1 or x.shape[-1] != 4 * width:
        x = convolution(scope, name + ".shortcut", x, 4 * width, 1, stride)
    return tf.nn.relu(y + x)


def model(params):
    """The network: a function from its weights and images (n, size, size, 3) to logits."""

    def logits(scope, images):
        x = tf.nn.relu(convolution(scope, "stem", images, 64, 7, 2))
        # All values are at least 0, so padding with zeros never changes the maximum.
        x = tf.nn.max_pool2d(tf.pad(x, padding(1)), 3, 2, "VALID")
        number = 0
        for width, blocks, stride in STAGES:
            for index in range(blocks):
                name = "blocks.{}".format(number)
                x = bottleneck(scope, name, x, width, stride if index == 0 else 1)
                number += 1
        weight = scope.parameter("head.weight", x.shape[-1], params["classes"])
        bias = scope.parameter("head.bias", params["classes"])
        return tf.matmul(tf.reduce_mean(x, [1, 2]), weight) + bias

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    logits = tf.cast(model(batch["images"]), tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch["labels"], logits=logits)
    return tf.reduce_mean(losses)
