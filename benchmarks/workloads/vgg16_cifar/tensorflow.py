"""VGG-16 for CIFAR-10 in TensorFlow, as PaddlePaddle's VGG16 cluster benchmark trained it."""

import tensorflow as tf

GROUPS = (
    (64, (0.6, 0)),
    (128, (0.8, 0)),
    (256, (0.8, 0.8, 0)),
    (512, (0.8, 0.8, 0)),
    (512, (0.8, 0.8, 0)),
)
"""Width of the 3x3 convolutions between two poolings; share of the dropout after each."""


def batch_norm(scope, name, x):
    """Normalise each channel over the batch; its weights are float32."""
    weights = [scope.parameter(name + part, x.shape[-1]) for part in (".weight", ".bias")]
    scale, bias = (tf.cast(weight, tf.float32) for weight in weights)
    y, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, scale, bias, epsilon=1e-5)
    scope.average(name + ".running_mean", mean)
    scope.average(name + ".running_var", variance)
    return y


def convolution(scope, name, x, out):
    """A 3x3 convolution without bias and its batch norm."""
    kernel = scope.parameter(name + ".0.weight", 3, 3, x.shape[-1], out)
    return tf.nn.relu(batch_norm(scope, name + ".1", tf.nn.conv2d(x, kernel, 1, "SAME")))


def model(params):
    """The network: a function from its weights and images (n, 32, 32, 3) to logits."""

    def drop(x, share=1.0):
        return tf.nn.dropout(x, rate=share * params["dropout"])

    def logits(scope, x):
        number = 0
        for width, shares in GROUPS:
            for share in shares:
                x = convolution(scope, "convolutions.{}".format(number), x, width)
                x, number = drop(x, share), number + 1
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = tf.matmul(tf.reshape(drop(x), [-1, 512]), scope.parameter("hidden1.weight", 512, 512))
        x = tf.nn.relu(batch_norm(scope, "norm", tf.reshape(x, [-1, 1, 1, 512])))
        x = tf.matmul(tf.reshape(drop(x), [-1, 512]), scope.parameter("hidden2.weight", 512, 512))
        x = x + scope.parameter("hidden2.bias", 512)
        weight = scope.parameter("head.weight", 512, params["classes"])
        return tf.matmul(x, weight) + scope.parameter("head.bias", params["classes"])

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    logits = tf.cast(model(batch["images"]), tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch["labels"], logits=logits)
    return tf.reduce_mean(losses)
