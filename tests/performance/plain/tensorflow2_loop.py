"""A plain TensorFlow 2 loop: a tf.function with a GradientTape and an optimizer of Keras."""

import functools
import json
import os
import sys
import time

import tensorflow as tf
from _arguments import batch, folder, mode, module, params, steps, warmup

# The variables of the model file: it asks for them by name.
sys.path.insert(0, os.path.join(folder, "..", ".."))
from apis.tensorflow.scope import Scope

scope, network = Scope(), module("tensorflow")
turned = {n: v.transpose(0, 2, 3, 1) if v.ndim == 4 else v for n, v in batch.items()}
batch = {name: tf.constant(value) for name, value in turned.items()}
model = functools.partial(network.model(params), scope)
network.loss(model, batch)
weights = list(scope.weights.values())
for weight in weights:
    weight.assign(tf.random.normal(weight.shape, stddev=0.02))
optimizer = tf.keras.optimizers.SGD(
    params["learning_rate"], momentum=params["momentum"], weight_decay=params["weight_decay"]
)
optimizer.build(weights)


def train(batch):
    with tf.GradientTape() as tape:
        loss = network.loss(model, batch)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


if mode == "compiler xla":
    train = tf.function(train, jit_compile=True)
elif not mode:
    train = tf.function(train)
elif mode != "execution eager":
    raise ValueError(mode)
for step in range(warmup + steps):
    if step == warmup:
        began = time.perf_counter()
    loss = train(batch)
loss.numpy()
print(json.dumps({"seconds": time.perf_counter() - began, "loss": float(loss)}))
