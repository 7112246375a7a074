"""VGG-16 in PyTorch (Simonyan and Zisserman 2014, arXiv:1409.1556, configuration D)."""

from torch import nn
from torch.nn import functional

GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Widths of the 3x3 convolutions between two poolings."""


class Vgg16(nn.Module):
    """The network, from images (n, 3, size, size) to logits (n, classes)."""

    def __init__(self, params):
        super().__init__()
        widths = [3, *(width for group in GROUPS for width in group)]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(*pair, 3, padding=1) for pair in zip(widths, widths[1:])
        )
        widths = [widths[-1] * 7 * 7, 4096, 4096, params["classes"]]
        self.connected = nn.ModuleList(nn.Linear(*pair) for pair in zip(widths, widths[1:]))
        self.dropout = nn.Dropout(params["dropout"])

    def forward(self, x):
        """Logits."""
        convolutions = iter(self.convolutions)
        for group in GROUPS:
            for _ in group:
                x = functional.relu(next(convolutions)(x))
            x = functional.max_pool2d(x, 2)
        # The shape for images of 224x224; from 32x32 a map of 1x1 remains, which is repeated.
        x = functional.adaptive_avg_pool2d(x, 7).flatten(1)
        *hidden, head = self.connected
        for layer in hidden:
            x = self.dropout(functional.relu(layer(x)))
        return head(x)


def model(params):
    """The network."""
    return Vgg16(params)


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    return functional.cross_entropy(model(batch["images"]), batch["labels"])
