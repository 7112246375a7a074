"""A plain Fluid loop: an Executor over the default program, as its examples write it."""

import json
import time

from _arguments import batch, module, params, steps, warmup
from paddle import fluid

network = module("fluid")
inputs = {
    name: fluid.data(name, [None, *value.shape[1:]], str(value.dtype))
    for name, value in batch.items()
}
loss = network.loss(network.model(params), inputs)
fluid.optimizer.MomentumOptimizer(
    params["learning_rate"],
    params["momentum"],
    regularization=fluid.regularizer.L2Decay(params["weight_decay"]),
).minimize(loss)
executor = fluid.Executor(fluid.CPUPlace())
executor.run(fluid.default_startup_program())
for step in range(warmup + steps):
    if step == warmup:
        began = time.perf_counter()
    (value,) = executor.run(feed=batch, fetch_list=[loss.name])
print(json.dumps({"seconds": time.perf_counter() - began, "loss": float(value)}))
