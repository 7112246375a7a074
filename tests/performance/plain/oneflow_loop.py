"""A plain OneFlow loop over the model file of PyTorch, whose names are OneFlow's own."""

import json
import sys
import time

import oneflow
from _arguments import batch, mode, module, params, steps, warmup

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


class Graph(oneflow.nn.Graph):
    """Forward, backward and update, as OneFlow's guide writes a graph for training."""

    def __init__(self):
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer)

    def build(self, batch):
        loss = network.loss(self.model, batch)
        loss.backward()
        return loss


def train(batch):
    loss = network.loss(model, batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


if mode == "execution graph":
    train = Graph()
elif mode:
    raise ValueError(mode)
for step in range(warmup + steps):
    if step == warmup:
        oneflow._oneflow_internal.eager.Sync()
        began = time.perf_counter()
    loss = train(batch)
oneflow._oneflow_internal.eager.Sync()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": loss.item()}))
