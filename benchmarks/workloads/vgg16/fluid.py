"""VGG-16 in Fluid, as a static graph (Simonyan and Zisserman 2014, arXiv:1409.1556)."""

from paddle.fluid import layers

GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Widths of the 3x3 convolutions between two poolings."""


def model(params):
    """The network: a function from images (n, 3, size, size) to logits (n, classes)."""

    def dropped(x):
        return layers.dropout(x, params["dropout"], dropout_implementation="upscale_in_train")

    def logits(x):
        number = 0
        for group in GROUPS:
            for width in group:
                name = "convolutions.{}.".format(number)
                attributes = {"param_attr": name + "weight", "bias_attr": name + "bias"}
                x = layers.conv2d(x, width, 3, padding=1, act="relu", **attributes)
                number += 1
            x = layers.pool2d(x, 2, "max", 2)
        # The shape for images of 224x224; from 32x32 a map of 1x1 remains, which is repeated.
        x = layers.adaptive_pool2d(x, [7, 7], "avg")
        for number, width in enumerate((4096, 4096, params["classes"])):
            name = "connected.{}.".format(number)
            x = layers.fc(x, width, param_attr=name + "weight", bias_attr=name + "bias")
            if number < 2:
                x = dropped(layers.relu(x))
        return x

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    labels = layers.unsqueeze(batch["labels"], [1])
    return layers.mean(layers.softmax_with_cross_entropy(model(batch["images"]), labels))
