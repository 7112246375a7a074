"""A plain MegEngine loop: a GradManager and an SGD, as its examples write it."""

import json
import time

import megengine
from _arguments import batch, mode, module, params, steps, warmup
from megengine import optimizer
from megengine.autodiff import GradManager
from megengine.jit import trace

network = module("megengine")
batch = {name: megengine.tensor(value) for name, value in batch.items()}
model = network.model(params)
gradients = GradManager().attach(model.parameters())
sgd = optimizer.SGD(
    model.parameters(),
    lr=params["learning_rate"],
    momentum=params["momentum"],
    weight_decay=params["weight_decay"],
)


def train():
    with gradients:
        loss = network.loss(model, batch)
        gradients.backward(loss)
    sgd.step().clear_grad()
    return loss


if mode == "execution graph":
    train = trace(train, symbolic=True)
elif mode:
    raise ValueError(mode)
for step in range(warmup + steps):
    if step == warmup:
        megengine._full_sync()
        began = time.perf_counter()
    loss = train()
megengine._full_sync()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": float(loss.numpy())}))
