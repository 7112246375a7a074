"""A MindSpore loop: value_and_grad and an optimizer, as its tutorials write it."""

import mindspore
from mindspore import nn


def build(given):
    """One step, and a wait for the device."""
    given.only(optimizer=["momentum", "adamw"], execution=["default", "graph"])
    mindspore.set_device("CPU")
    network, params = given.network("mindspore"), given.params
    # Else a graph would take a batch for constants.
    batch = mindspore.mutable(
        {name: mindspore.Tensor(value) for name, value in given.batch.items()}
    )
    model = network.model(params).set_train()
    weights, rate, decay = model.trainable_params(), params["learning_rate"], params["weight_decay"]
    if params["optimizer"] == "momentum":
        optimizer = nn.Momentum(weights, rate, params["momentum"], weight_decay=decay)
    else:
        betas = {"beta1": params["beta1"], "beta2": params["beta2"]}
        optimizer = nn.AdamWeightDecay(
            weights, rate, eps=params["epsilon"], weight_decay=decay, **betas
        )
    last = [None]

    def forward(batch):
        return network.loss(model, batch)

    forward_backward = mindspore.value_and_grad(forward, None, optimizer.parameters)

    def train(batch):
        loss, gradients = forward_backward(batch)
        optimizer(gradients)
        return loss

    if given.case["execution"] == "graph":
        train = mindspore.jit(train)

    def step():
        last[0] = train(batch)

    def wait():
        mindspore.runtime.synchronize()
        return float(last[0].asnumpy())

    return step, wait
