"""ResNet-50 v1.5 in PaddlePaddle 3: one training step on synthetic images."""

import numpy
import paddle
from paddle import nn
from paddle.nn import functional

PARAMETERS = 25557032
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width of the 3x3 convolution, number of blocks, stride of the first block."""


def convolution(channels, out, size, stride=1, padding=0):
    """Without bias (a batch norm follows), initialised by its fan-out (He et al. 2015)."""
    scale = (2.0 / (out * size * size)) ** 0.5
    return nn.Conv2D(
        channels,
        out,
        size,
        stride=stride,
        padding=padding,
        weight_attr=paddle.ParamAttr(initializer=nn.initializer.Normal(0.0, scale)),
        bias_attr=False,
    )


class Bottleneck(nn.Layer):
    """1x1, 3x3 (with the stride: this is what makes it v1.5), 1x1 to four times the width."""

    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.conv1 = convolution(channels, width, 1)
        self.norm1 = nn.BatchNorm2D(width)
        self.conv2 = convolution(width, width, 3, stride=stride, padding=1)
        self.norm2 = nn.BatchNorm2D(width)
        self.conv3 = convolution(width, out, 1)
        # Blocks begin as identities (Goyal et al. 2017, arXiv:1706.02677): steadier.
        zeros = paddle.ParamAttr(initializer=nn.initializer.Constant(0.0))
        self.norm3 = nn.BatchNorm2D(out, weight_attr=zeros)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                convolution(channels, out, 1, stride=stride), nn.BatchNorm2D(out)
            )

    def forward(self, x):
        """The block's output, with as many channels as four times its width."""
        y = functional.relu(self.norm1(self.conv1(x)))
        y = functional.relu(self.norm2(self.conv2(y)))
        return functional.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


def resnet50(classes):
    """The network, from images (n, 3, size, size) to logits (n, classes)."""
    layers = [
        convolution(3, 64, 7, stride=2, padding=3),
        nn.BatchNorm2D(64),
        nn.ReLU(),
        nn.MaxPool2D(3, stride=2, padding=1),
    ]
    channels = 64
    for width, blocks, stride in STAGES:
        for index in range(blocks):
            layers.append(Bottleneck(channels, width, stride if index == 0 else 1))
            channels = 4 * width
    uniform = nn.initializer.Uniform(-(channels**-0.5), channels**-0.5)
    head = nn.Linear(
        channels,
        classes,
        weight_attr=paddle.ParamAttr(initializer=uniform),
        bias_attr=paddle.ParamAttr(initializer=uniform),
    )
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2D(1), nn.Flatten(), head)


class Task:
    """The model, its optimizer and its data."""

    def __init__(self, context):
        params, runtime = context.params, context.runtime
        self.samples_per_step = context.batch_size
        paddle.seed(context.seed)
        self.model = resnet50(params["classes"])
        self.parameters = sum(
            int(numpy.prod(p.shape)) for p in self.model.parameters() if not p.stop_gradient
        )
        if self.parameters != PARAMETERS:
            raise RuntimeError("{} parameters, not {}".format(self.parameters, PARAMETERS))
        self.forward = runtime.parallel(self.model)
        self.optimizer = paddle.optimizer.Momentum(
            learning_rate=params["learning_rate"],
            momentum=params["momentum"],
            weight_decay=params["weight_decay"],
            parameters=self.model.parameters(),
        )
        # Every rank has images of its own: equal weights then prove that gradients were exchanged.
        random = numpy.random.RandomState(context.seed * 100003 + context.rank)
        shape = (context.batch_size, 3, params["image_size"], params["image_size"])
        self.batches = [
            (
                paddle.to_tensor(random.standard_normal(shape).astype("float32")),
                paddle.to_tensor(random.randint(0, params["classes"], shape[:1]).astype("int64")),
            )
            for _ in range(params["batches"])
        ]
        self.kept = []

    def step(self):
        """Forward, backward, update. The loss stays a tensor."""
        images, labels = self.batches[len(self.kept) % len(self.batches)]
        loss = functional.cross_entropy(self.forward(images), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        self.kept.append(loss.detach())

    def losses(self):
        """The losses of all steps so far."""
        return [float(loss) for loss in self.kept]


def build(context):
    """The task of this rank."""
    return Task(context)
