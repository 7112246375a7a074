"""A PaddlePaddle loop, as the framework's examples write it."""

import channels_last
import paddle
from apis.paddle import torch_names
from apis.paddle.trainer import Loss


def build(given):
    """One step, and a wait for the device."""
    axes = {"execution": ["default", "graph"], "layout": ["default", "channels_last"]}
    given.only(optimizer=["momentum", "adamw"], **axes)
    network, params, values = given.network("paddle"), given.params, given.batch
    if given.case["layout"] == "channels_last":
        torch_names.put_channels_last()
        values = channels_last.batch(values)
    batch = {name: paddle.to_tensor(value) for name, value in values.items()}
    model = network.model(params)
    settings = {
        "learning_rate": params["learning_rate"],
        "weight_decay": params["weight_decay"],
        "parameters": model.parameters(),
    }
    if params["optimizer"] == "momentum":
        optimizer = paddle.optimizer.Momentum(momentum=params["momentum"], **settings)
    else:
        names = ("beta1", "beta2", "epsilon")
        settings.update({name: params[name] for name in names})
        optimizer = paddle.optimizer.AdamW(**settings)
    last = [None]

    def forward(batch):
        return network.loss(model, batch)

    if given.case["execution"] == "graph":
        forward = paddle.jit.to_static(Loss(model, network.loss), full_graph=True)

    def step():
        loss = forward(batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        last[0] = loss

    def wait():
        if given.gpu:
            paddle.device.cuda.synchronize()
        return float(last[0])

    return step, wait
