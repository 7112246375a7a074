"""ResNet-50 v1.5 in PyTorch: one training step on synthetic images."""

import torch
from torch import nn
from torch.nn import functional

PARAMETERS = 25557032
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width of the 3x3 convolution, number of blocks, stride of the first block."""


class Bottleneck(nn.Module):
    """1x1, 3x3 (with the stride: this is what makes it v1.5), 1x1 to four times the width."""

    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(out)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x):
        """The block's output, with as many channels as four times its width."""
        y = functional.relu(self.norm1(self.conv1(x)))
        y = functional.relu(self.norm2(self.conv2(y)))
        return functional.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


def resnet50(classes):
    """The network, from images (n, 3, size, size) to logits (n, classes)."""
    layers = [
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    channels = 64
    for width, blocks, stride in STAGES:
        for index in range(blocks):
            layers.append(Bottleneck(channels, width, stride if index == 0 else 1))
            channels = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    model = nn.Sequential(*layers)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if isinstance(module, Bottleneck):
            # Blocks begin as identities (Goyal et al. 2017, arXiv:1706.02677): steadier.
            nn.init.zeros_(module.norm3.weight)
    return model


class Task:
    """The model, its optimizer and its data."""

    def __init__(self, context):
        params, runtime = context.params, context.runtime
        self.runtime = runtime
        self.samples_per_step = context.batch_size
        torch.manual_seed(context.seed)
        self.model = resnet50(params["classes"]).to(runtime.device)
        self.parameters = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        if self.parameters != PARAMETERS:
            raise RuntimeError("{} parameters, not {}".format(self.parameters, PARAMETERS))
        self.forward = runtime.parallel(self.model)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=params["learning_rate"],
            momentum=params["momentum"],
            weight_decay=params["weight_decay"],
        )
        self.scaler = torch.amp.GradScaler(runtime.device.type, enabled=context.precision == "fp16")
        # Every rank has images of its own: equal weights then prove that gradients were exchanged.
        generator = torch.Generator().manual_seed(context.seed * 100003 + context.rank)
        shape = (context.batch_size, 3, params["image_size"], params["image_size"])
        self.batches = [
            (
                torch.randn(shape, generator=generator).to(runtime.device),
                torch.randint(0, params["classes"], shape[:1], generator=generator).to(
                    runtime.device
                ),
            )
            for _ in range(params["batches"])
        ]
        self.kept = []

    def step(self):
        """Forward, backward, update. The loss stays on the device."""
        images, labels = self.batches[len(self.kept) % len(self.batches)]
        self.optimizer.zero_grad(set_to_none=True)
        with self.runtime.autocast():
            loss = functional.cross_entropy(self.forward(images), labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.kept.append(loss.detach())

    def losses(self):
        """The losses of all steps so far."""
        return torch.stack(self.kept).float().tolist()


def build(context):
    """The task of this rank."""
    return Task(context)
