"""A Gluon loop, as its examples write it."""

import cuda11

cuda11.load()
import mxnet  # noqa: E402 - see above
from mxnet import autograd, gluon  # noqa: E402 - see above


def build(given):
    """One step, and a wait for the device."""
    given.only(optimizer=["momentum", "adamw"], execution=["default", "graph"])
    network, params = given.network("mxnet"), given.params
    device = mxnet.gpu(0) if given.gpu else mxnet.cpu()
    batch = {name: mxnet.nd.array(x, device, x.dtype) for name, x in given.batch.items()}
    model = network.model(params)
    model.initialize(ctx=device)
    if given.case["execution"] == "graph":
        model.hybridize(static_alloc=True, static_shape=True)
    settings = {"learning_rate": params["learning_rate"], "wd": params["weight_decay"]}
    names = ("momentum",) if params["optimizer"] == "momentum" else ("beta1", "beta2", "epsilon")
    settings.update({name: params[name] for name in names})
    optimizer = "sgd" if params["optimizer"] == "momentum" else "adam"
    trainer = gluon.Trainer(model.collect_params(), optimizer, settings)
    last = [None]

    def step():
        with autograd.record():
            loss = network.loss(model, batch)
        loss.backward()
        trainer.step(1)
        last[0] = loss

    def wait():
        mxnet.nd.waitall()
        return float(last[0].asscalar())

    return step, wait
