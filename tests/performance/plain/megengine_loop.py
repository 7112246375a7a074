"""A plain MegEngine loop: a GradManager and an SGD, as its examples write it."""

import json
import time

import megengine
from _arguments import batch, module, params, steps, warmup
from megengine import optimizer
from megengine.autodiff import GradManager

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
for step in range(warmup + steps):
    if step == warmup:
        megengine._full_sync()
        began = time.perf_counter()
    with gradients:
        loss = network.loss(model, batch)
        gradients.backward(loss)
    sgd.step().clear_grad()
megengine._full_sync()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": float(loss.numpy())}))
