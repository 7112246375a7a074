"""A plain MindSpore loop: value_and_grad and an optimizer, as its tutorials write it."""

import json
import time

import mindspore
from _arguments import batch, mode, module, params, steps, warmup
from mindspore import nn

network = module("mindspore")
batch = {name: mindspore.Tensor(value) for name, value in batch.items()}
model = network.model(params).set_train()
optimizer = nn.Momentum(
    model.trainable_params(),
    params["learning_rate"],
    params["momentum"],
    weight_decay=params["weight_decay"],
)


def forward(images, labels):
    return network.loss(model, {"images": images, "labels": labels})


forward_backward = mindspore.value_and_grad(forward, None, optimizer.parameters)


def train(images, labels):
    loss, gradients = forward_backward(images, labels)
    optimizer(gradients)
    return loss


if mode == "execution graph":
    train = mindspore.jit(train)
elif mode:
    raise ValueError(mode)
for step in range(warmup + steps):
    if step == warmup:
        mindspore.runtime.synchronize()
        began = time.perf_counter()
    loss = train(batch["images"], batch["labels"])
mindspore.runtime.synchronize()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": float(loss.asnumpy())}))
