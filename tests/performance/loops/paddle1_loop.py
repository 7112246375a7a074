"""A Fluid loop: an Executor over the default program, as its examples write it."""

from paddle import fluid


def build(given):
    """One step, and a wait for the device."""
    given.only(optimizer=["momentum", "adamw"])
    network, params = given.network("fluid"), given.params
    inputs = {
        name: fluid.data(name, [None, *value.shape[1:]], str(value.dtype))
        for name, value in given.batch.items()
    }
    loss = network.loss(network.model(params), inputs)
    rate, decay = params["learning_rate"], params["weight_decay"]
    if params["optimizer"] == "momentum":
        optimizer = fluid.optimizer.MomentumOptimizer(
            rate, params["momentum"], regularization=fluid.regularizer.L2Decay(decay)
        )
    else:
        adamw = fluid.contrib.extend_with_decoupled_weight_decay(fluid.optimizer.Adam)
        optimizer = adamw(
            weight_decay=decay,
            learning_rate=rate,
            beta1=params["beta1"],
            beta2=params["beta2"],
            epsilon=params["epsilon"],
        )
    optimizer.minimize(loss)
    executor = fluid.Executor(fluid.CUDAPlace(0) if given.gpu else fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    last = [None]

    def step():
        (last[0],) = executor.run(feed=given.batch, fetch_list=[loss.name])

    return step, lambda: float(last[0])
