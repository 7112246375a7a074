"""A plain PaddlePaddle loop, as the framework's examples write it; prints its seconds."""

import json
import time

import paddle
from _arguments import batch, module, params, steps, warmup

network = module("paddle")
batch = {name: paddle.to_tensor(value) for name, value in batch.items()}
model = network.model(params)
optimizer = paddle.optimizer.Momentum(
    learning_rate=params["learning_rate"],
    momentum=params["momentum"],
    weight_decay=params["weight_decay"],
    parameters=model.parameters(),
)
for step in range(warmup + steps):
    if step == warmup:
        began = time.perf_counter()
    loss = network.loss(model, batch)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": float(loss)}))
