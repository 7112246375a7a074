"""ResNet-50 v1.5 in PyTorch (He et al. 2015, arXiv:1512.03385)."""

from torch import nn
from torch.nn import functional

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width of the 3x3 convolution, number of blocks, stride of the first block."""

SPATIAL = (2, 3)
"""Axes of height and width."""


def convolution(channels, out, size, stride=1):
    """A convolution without bias and its batch norm."""
    return nn.Sequential(
        nn.Conv2d(channels, out, size, stride=stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(out),
    )


class Bottleneck(nn.Module):
    """1x1, 3x3 (with the stride: this is what makes it v1.5), 1x1 to four times the width."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = convolution(channels, width, 1)
        self.conv2 = convolution(width, width, 3, stride)
        self.conv3 = convolution(width, 4 * width, 1)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != 4 * width:
            self.shortcut = convolution(channels, 4 * width, 1, stride)

    def forward(self, x):
        """The block's output, with four times its width in channels."""
        y = functional.relu(self.conv1(x))
        y = functional.relu(self.conv2(y))
        return functional.relu(self.conv3(y) + self.shortcut(x))


class ResNet50(nn.Module):
    """The network, from images (n, 3, size, size) to logits (n, classes)."""

    def __init__(self, classes):
        super().__init__()
        self.stem = convolution(3, 64, 7, stride=2)
        blocks, channels = [], 64
        for width, count, stride in STAGES:
            for index in range(count):
                blocks.append(Bottleneck(channels, width, stride if index == 0 else 1))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, images):
        """Logits."""
        x = functional.max_pool2d(functional.relu(self.stem(images)), 3, stride=2, padding=1)
        return self.head(self.blocks(x).mean(SPATIAL))


def model(params):
    """The network."""
    return ResNet50(params["classes"])


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    return functional.cross_entropy(model(batch["images"]), batch["labels"])
