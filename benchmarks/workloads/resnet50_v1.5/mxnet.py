"""ResNet-50 v1.5 in MXNet's Gluon (He et al. 2015, arXiv:1512.03385)."""

from mxnet import gluon
from mxnet.gluon import nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width of the 3x3 convolution, number of blocks, stride of the first block."""

LAYOUT = "NCHW"
"""Layout of images between layers; a line's trainer may change it before it makes the network."""


def convolution(channels, out, size, stride=1):
    """A convolution without bias and its batch norm."""
    layers = nn.HybridSequential()
    layers.add(
        nn.Conv2D(
            out, size, stride, size // 2, layout=LAYOUT, use_bias=False, in_channels=channels
        ),
        nn.BatchNorm(LAYOUT.index("C"), in_channels=out),
    )
    return layers


class Bottleneck(nn.HybridBlock):
    """1x1, 3x3 (with the stride: this is what makes it v1.5), 1x1 to four times the width."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = convolution(channels, width, 1)
        self.conv2 = convolution(width, width, 3, stride)
        self.conv3 = convolution(width, 4 * width, 1)
        self.shortcut = nn.HybridSequential()  # empty: the identity
        if stride != 1 or channels != 4 * width:
            self.shortcut = convolution(channels, 4 * width, 1, stride)

    def hybrid_forward(self, F, x):
        """The block's output, with four times its width in channels."""
        y = F.relu(self.conv1(x))
        y = F.relu(self.conv2(y))
        return F.relu(self.conv3(y) + self.shortcut(x))


class ResNet50(nn.HybridBlock):
    """The network, from images (n, 3, size, size) to logits (n, classes)."""

    def __init__(self, classes):
        super().__init__()
        self.stem = convolution(3, 64, 7, stride=2)
        self.pool = nn.MaxPool2D(3, strides=2, padding=1, layout=LAYOUT)
        self.blocks, channels = nn.HybridSequential(), 64
        for width, count, stride in STAGES:
            for index in range(count):
                self.blocks.add(Bottleneck(channels, width, stride if index == 0 else 1))
                channels = 4 * width
        self.head = nn.Dense(classes, in_units=channels)

    def hybrid_forward(self, F, images):
        """Logits."""
        x = self.pool(F.relu(self.stem(images)))
        return self.head(self.blocks(x).mean((LAYOUT.index("H"), LAYOUT.index("W"))))


def model(params):
    """The network."""
    return ResNet50(params["classes"])


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    return gluon.loss.SoftmaxCrossEntropyLoss()(model(batch["images"]), batch["labels"]).mean()
