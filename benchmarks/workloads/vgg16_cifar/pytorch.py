"""VGG-16 for CIFAR-10 in PyTorch, as PaddlePaddle's VGG16 cluster benchmark trained it."""

from torch import nn
from torch.nn import functional

GROUPS = (
    (64, (0.6, 0)),
    (128, (0.8, 0)),
    (256, (0.8, 0.8, 0)),
    (512, (0.8, 0.8, 0)),
    (512, (0.8, 0.8, 0)),
)
"""Width of the 3x3 convolutions between two poolings; share of the dropout after each."""


def convolution(channels, out):
    """A 3x3 convolution without bias and its batch norm."""
    return nn.Sequential(
        nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
    )


class Vgg16(nn.Module):
    """The network, from images (n, 3, 32, 32) to logits (n, classes)."""

    def __init__(self, params):
        super().__init__()
        widths = [3, *(width for width, shares in GROUPS for _ in shares)]
        self.convolutions = nn.ModuleList([convolution(*pair) for pair in zip(widths, widths[1:])])
        self.hidden1 = nn.Linear(512, 512, bias=False)
        self.norm = nn.BatchNorm1d(512)
        self.hidden2 = nn.Linear(512, 512)
        self.head = nn.Linear(512, params["classes"])
        self.dropout = params["dropout"]

    def drop(self, x, share=1.0):
        """Apply dropout at `share` of the workload's rate."""
        return functional.dropout(x, share * self.dropout, training=self.training)

    def forward(self, x):
        """Logits."""
        convolutions = iter(self.convolutions)
        for _, shares in GROUPS:
            for share in shares:
                x = self.drop(next(convolutions)(x), share)
            x = functional.max_pool2d(x, 2)
        x = self.hidden1(self.drop(x).flatten(1))
        x = self.hidden2(self.drop(functional.relu(self.norm(x))))
        return self.head(x)


def model(params):
    """The network."""
    return Vgg16(params)


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    return functional.cross_entropy(model(batch["images"]), batch["labels"])
