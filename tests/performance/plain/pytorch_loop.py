"""A plain PyTorch loop, as the framework's examples write it; prints its seconds."""

import json
import time

import torch
from _arguments import batch, mode, module, params, steps, warmup

network = module("pytorch")
batch = {name: torch.from_numpy(value) for name, value in batch.items()}
model = network.model(params)
compute = network.loss
if mode == "layout channels_last":
    model = model.to(memory_format=torch.channels_last)
    batch["images"] = batch["images"].contiguous(memory_format=torch.channels_last)
elif mode == "compiler inductor":
    compute = torch.compile(compute)
elif mode:
    raise ValueError(mode)
optimizer = torch.optim.SGD(
    model.parameters(),
    lr=params["learning_rate"],
    momentum=params["momentum"],
    weight_decay=params["weight_decay"],
)
for step in range(warmup + steps):
    if step == warmup:
        began = time.perf_counter()
    loss = compute(model, batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": loss.item()}))
