"""A plain PyTorch loop, as the framework's examples write it; prints its seconds."""

import json
import time

import torch
from _arguments import batch, module, params, steps, warmup

network = module("pytorch")
batch = {name: torch.from_numpy(value) for name, value in batch.items()}
model = network.model(params)
optimizer = torch.optim.SGD(
    model.parameters(),
    lr=params["learning_rate"],
    momentum=params["momentum"],
    weight_decay=params["weight_decay"],
)
for step in range(warmup + steps):
    if step == warmup:
        began = time.perf_counter()
    loss = network.loss(model, batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": loss.item()}))
