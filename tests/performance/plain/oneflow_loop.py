"""A plain OneFlow loop over the model file of PyTorch, whose names are OneFlow's own."""

import json
import sys
import time

import oneflow
from _arguments import batch, module, params, steps, warmup

# The model file, which `module` loads, imports them.
sys.modules["torch"] = oneflow
sys.modules["torch.nn"] = oneflow.nn
sys.modules["torch.nn.functional"] = oneflow.nn.functional

network = module("pytorch")
batch = {name: oneflow.tensor(value) for name, value in batch.items()}
model = network.model(params)
optimizer = oneflow.optim.SGD(
    model.parameters(),
    lr=params["learning_rate"],
    momentum=params["momentum"],
    weight_decay=params["weight_decay"],
)
for step in range(warmup + steps):
    if step == warmup:
        oneflow._oneflow_internal.eager.Sync()
        began = time.perf_counter()
    loss = network.loss(model, batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
oneflow._oneflow_internal.eager.Sync()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": loss.item()}))
