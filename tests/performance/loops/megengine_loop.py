"""A MegEngine loop: a GradManager and an SGD, as its examples write it."""

import megengine
from megengine import optimizer
from megengine.autodiff import GradManager
from megengine.jit import trace


def build(given):
    """One step, and a wait for the device."""
    given.only(optimizer=["momentum"], execution=["default", "graph"])
    megengine.set_default_device("gpu0" if given.gpu else "cpux")
    network, params = given.network("megengine"), given.params
    names = list(given.batch)
    batch = [megengine.tensor(given.batch[name]) for name in names]
    model = network.model(params)
    gradients = GradManager().attach(model.parameters())
    sgd = optimizer.SGD(
        model.parameters(),
        lr=params["learning_rate"],
        momentum=params["momentum"],
        weight_decay=params["weight_decay"],
    )

    def train(*values):
        with gradients:
            loss = network.loss(model, dict(zip(names, values)))
            gradients.backward(loss)
        sgd.step().clear_grad()
        return loss

    if given.case["execution"] == "graph":
        train = trace(train, symbolic=True)
    last = [None]

    def step():
        last[0] = train(*batch)

    def wait():
        megengine._full_sync()
        return float(last[0].numpy())

    return step, wait
