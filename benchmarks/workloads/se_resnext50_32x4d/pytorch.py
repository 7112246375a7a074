"""SE-ResNeXt-50 32x4d in PyTorch (Xie et al., arXiv:1611.05431; Hu et al., arXiv:1709.01507)."""

from torch import nn
from torch.nn import functional

STAGES = ((128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2))
"""Width of the grouped 3x3 convolution, number of blocks, stride of the first block."""
GROUPS = 32
REDUCTION = 16

SPATIAL = (2, 3)
"""Axes of height and width."""


def convolution(channels, out, size, stride=1, groups=1):
    """A convolution without bias and its batch norm."""
    padding = size // 2
    return nn.Sequential(
        nn.Conv2d(channels, out, size, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    )


class Bottleneck(nn.Module):
    """1x1, 3x3 in 32 groups, 1x1 to twice the width; squeeze and excitation of channels."""

    def __init__(self, channels, width, stride):
        super().__init__()
        out = 2 * width
        self.conv1 = convolution(channels, width, 1)
        self.conv2 = convolution(width, width, 3, stride, GROUPS)
        self.conv3 = convolution(width, out, 1)
        self.squeeze = nn.Linear(out, out // REDUCTION)
        self.excite = nn.Linear(out // REDUCTION, out)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = convolution(channels, out, 1, stride)

    def forward(self, x):
        """The block's output, with twice its width in channels."""
        y = functional.relu(self.conv1(x))
        y = self.conv3(functional.relu(self.conv2(y)))
        weight = functional.sigmoid(self.excite(functional.relu(self.squeeze(y.mean(SPATIAL)))))
        height, width = SPATIAL
        weight = weight.unsqueeze(height).unsqueeze(width)
        return functional.relu(y * weight + self.shortcut(x))


class SeResNext50(nn.Module):
    """The network, from images (n, 3, size, size) to logits (n, classes)."""

    def __init__(self, classes):
        super().__init__()
        self.stem = convolution(3, 64, 7, stride=2)
        blocks, channels = [], 64
        for width, count, stride in STAGES:
            for index in range(count):
                blocks.append(Bottleneck(channels, width, stride if index == 0 else 1))
                channels = 2 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, images):
        """Logits."""
        x = functional.max_pool2d(functional.relu(self.stem(images)), 3, stride=2, padding=1)
        return self.head(self.blocks(x).mean(SPATIAL))


def model(params):
    """The network."""
    return SeResNext50(params["classes"])


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    return functional.cross_entropy(model(batch["images"]), batch["labels"])
