"""A OneFlow loop over the model file of PyTorch, whose names are OneFlow's own."""

import oneflow
from frameworks.oneflow import torch_api
from oneflow import nn


def build(given):
    """One step, and a wait for the device."""
    given.only(optimizer=["momentum", "adamw"], execution=["default", "graph"])
    torch_api.install()
    network, params = given.network("pytorch"), given.params
    device = oneflow.device("cuda" if given.gpu else "cpu")
    batch = {name: oneflow.tensor(value, device=device) for name, value in given.batch.items()}
    model = network.model(params).to(device)
    settings = {"lr": params["learning_rate"], "weight_decay": params["weight_decay"]}
    if params["optimizer"] == "momentum":
        optimizer = oneflow.optim.SGD(model.parameters(), momentum=params["momentum"], **settings)
    else:
        settings.update(betas=(params["beta1"], params["beta2"]), eps=params["epsilon"])
        optimizer = oneflow.optim.AdamW(model.parameters(), **settings)
    last = [None]

    class Step(nn.Graph):
        def __init__(self):
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)

        def build(self, batch):
            loss = network.loss(self.model, batch)
            loss.backward()
            return loss

    def eager(batch):
        loss = network.loss(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    train = Step() if given.case["execution"] == "graph" else eager

    def step():
        last[0] = train(batch)

    def wait():
        if given.gpu:
            oneflow.cuda.synchronize()
        else:
            oneflow._oneflow_internal.eager.Sync()
        return last[0].item()

    return step, wait
