"""A plain PaddlePaddle loop, as the framework's examples write it."""

import paddle


def build(given):
    """One step, and a wait for the device."""
    given.only(optimizer=["momentum", "adamw"], execution=["default", "graph"])
    network, params = given.network("paddle"), given.params
    batch = {name: paddle.to_tensor(value) for name, value in given.batch.items()}
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
        forward = paddle.jit.to_static(forward, full_graph=True)

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
