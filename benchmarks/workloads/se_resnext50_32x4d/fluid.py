"""SE-ResNeXt-50 32x4d in Fluid, as a static graph (arXiv:1611.05431 and arXiv:1709.01507)."""

from paddle.fluid import layers

STAGES = ((128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2))
"""Width of the grouped 3x3 convolution, number of blocks, stride of the first block."""
GROUPS = 32
REDUCTION = 16


def convolution(x, out, size, name, stride=1, groups=1, activation=None):
    """A convolution without bias and its batch norm."""
    weight, padding = name + ".0.weight", size // 2
    x = layers.conv2d(
        x, out, size, stride, padding, groups=groups, param_attr=weight, bias_attr=False
    )
    attributes = {"param_attr": name + ".1.weight", "bias_attr": name + ".1.bias"}
    return layers.batch_norm(x, act=activation, **attributes)


def connected(x, out, name, activation=None):
    """A fully connected layer."""
    return layers.fc(x, out, act=activation, param_attr=name + ".weight", bias_attr=name + ".bias")


def bottleneck(x, width, stride, name):
    """1x1, 3x3 in 32 groups, 1x1 to twice the width; squeeze and excitation of channels."""
    out = 2 * width
    y = convolution(x, width, 1, name + "conv1", activation="relu")
    y = convolution(y, width, 3, name + "conv2", stride, GROUPS, activation="relu")
    y = convolution(y, out, 1, name + "conv3")
    means = layers.reduce_mean(y, [2, 3])
    weight = connected(means, out // REDUCTION, name + "squeeze", "relu")
    weight = connected(weight, out, name + "excite", "sigmoid")
    if stride != 1 or x.shape[1] != out:
        x = convolution(x, out, 1, name + "shortcut", stride)
    return layers.relu(layers.elementwise_mul(y, weight, axis=0) + x)


def model(params):
    """The network: a function from images (n, 3, size, size) to logits (n, classes)."""

    def logits(x):
        x = convolution(x, 64, 7, "stem", stride=2, activation="relu")
        x = layers.pool2d(x, 3, "max", 2, 1)
        number = 0
        for width, count, stride in STAGES:
            for index in range(count):
                x = bottleneck(x, width, 1 if index else stride, "blocks.{}.".format(number))
                number += 1
        return connected(layers.reduce_mean(x, [2, 3]), params["classes"], "head")

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    labels = layers.unsqueeze(batch["labels"], [1])
    return layers.mean(layers.softmax_with_cross_entropy(model(batch["images"]), labels))
