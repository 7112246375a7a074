"""A plain Gluon loop, as its examples write it; prints its seconds."""

import json
import time

import mxnet
from _arguments import batch, mode, module, params, steps, warmup
from mxnet import autograd, gluon

network = module("mxnet")
batch = {name: mxnet.nd.array(value, dtype=value.dtype) for name, value in batch.items()}
model = network.model(params)
model.initialize()
if mode == "execution graph":
    model.hybridize(static_alloc=True, static_shape=True)
elif mode:
    raise ValueError(mode)
settings = {name: params[name] for name in ("learning_rate", "momentum")}
settings["wd"] = params["weight_decay"]
trainer = gluon.Trainer(model.collect_params(), "sgd", settings)
for step in range(warmup + steps):
    if step == warmup:
        mxnet.nd.waitall()
        began = time.perf_counter()
    with autograd.record():
        loss = network.loss(model, batch)
    loss.backward()
    trainer.step(1)
mxnet.nd.waitall()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": float(loss.asscalar())}))
