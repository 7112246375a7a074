"""VGG-16 for CIFAR-10 in Fluid, as PaddlePaddle's VGG16 cluster benchmark trained it."""

from paddle.fluid import layers

GROUPS = (
    (64, (0.6, 0)),
    (128, (0.8, 0)),
    (256, (0.8, 0.8, 0)),
    (512, (0.8, 0.8, 0)),
    (512, (0.8, 0.8, 0)),
)
"""Width of the 3x3 convolutions between two poolings; share of the dropout after each."""


def model(params):
    """The network: a function from images (n, 3, 32, 32) to logits (n, classes)."""

    def drop(x, share=1.0):
        rate = share * params["dropout"]
        return layers.dropout(x, rate, dropout_implementation="upscale_in_train") if rate else x

    def norm(x, name):
        weight, bias = name + ".weight", name + ".bias"
        return layers.batch_norm(x, act="relu", param_attr=weight, bias_attr=bias)

    def convolution(x, width, name):
        weight = name + ".0.weight"
        x = layers.conv2d(x, width, 3, padding=1, param_attr=weight, bias_attr=False)
        return norm(x, name + ".1")

    def logits(x):
        number = 0
        for width, shares in GROUPS:
            for share in shares:
                x = drop(convolution(x, width, "convolutions.{}".format(number)), share)
                number += 1
            x = layers.pool2d(x, 2, "max", 2)
        x = layers.fc(drop(x), 512, param_attr="hidden1.weight", bias_attr=False)
        x = drop(norm(x, "norm"))
        x = layers.fc(x, 512, param_attr="hidden2.weight", bias_attr="hidden2.bias")
        return layers.fc(x, params["classes"], param_attr="head.weight", bias_attr="head.bias")

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    labels = layers.unsqueeze(batch["labels"], [1])
    return layers.mean(layers.softmax_with_cross_entropy(model(batch["images"]), labels))
