"""ResNet-50 v1.5 in Fluid, as a static graph (He et al. 2015, arXiv:1512.03385)."""

from paddle.fluid import layers

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width of the 3x3 convolution, number of blocks, stride of the first block."""


def convolution(x, out, size, name, stride=1, activation=None):
    """A convolution without bias and its batch norm."""
    weight, padding = name + ".0.weight", size // 2
    x = layers.conv2d(x, out, size, stride, padding, param_attr=weight, bias_attr=False)
    attributes = {"param_attr": name + ".1.weight", "bias_attr": name + ".1.bias"}
    return layers.batch_norm(x, act=activation, **attributes)


def bottleneck(x, width, stride, name):
    """1x1, 3x3 (with the stride: this is what makes it v1.5), 1x1 to four times the width."""
    y = convolution(x, width, 1, name + "conv1", activation="relu")
    y = convolution(y, width, 3, name + "conv2", stride, activation="relu")
    y = convolution(y, 4 * width, 1, name + "conv3")
    if stride != 1 or x.shape[1] != 4 * width:
        x = convolution(x, 4 * width, 1, name + "shortcut", stride)
    return layers.relu(y + x)


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
        attributes = {"param_attr": "head.weight", "bias_attr": "head.bias"}
        return layers.fc(layers.reduce_mean(x, [2, 3]), params["classes"], **attributes)

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    labels = layers.unsqueeze(batch["labels"], [1])
    return layers.mean(layers.softmax_with_cross_entropy(model(batch["images"]), labels))
