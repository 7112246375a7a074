"""A plain TensorFlow 1 loop: a graph, its MomentumOptimizer, and session.run."""

import functools
import json
import os
import sys
import time

import tensorflow as tf
from _arguments import batch, folder, module, params, steps, warmup

# The variables of the model file: it asks for them by name.
sys.path.insert(0, os.path.join(folder, "..", ".."))
from apis.tensorflow.scope import Scope


class GraphScope(Scope):
    """Collects the updates of running averages, which a step has to run."""

    def __init__(self):
        super().__init__()
        self.updates = []

    def average(self, name, value):
        self.updates.append(super().average(name, value))


scope, network = GraphScope(), module("tensorflow")
turned = {n: v.transpose(0, 2, 3, 1) if v.ndim == 4 else v for n, v in batch.items()}
inputs = {n: tf.compat.v1.placeholder(v.dtype, v.shape) for n, v in turned.items()}
loss = network.loss(functools.partial(network.model(params), scope), inputs)
weights = list(scope.weights.values())
optimizer = tf.compat.v1.train.MomentumOptimizer(params["learning_rate"], params["momentum"])
gradients = tf.gradients(loss, weights)
decayed = [gradient + params["weight_decay"] * w for gradient, w in zip(gradients, weights)]
train = tf.group(optimizer.apply_gradients(zip(decayed, weights)), *scope.updates)
one = {"intra_op_parallelism_threads": 1, "inter_op_parallelism_threads": 1}
session = tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(**one))
session.run(tf.compat.v1.global_variables_initializer())
session.run([weight.assign(tf.random.normal(weight.shape, stddev=0.02)) for weight in weights])
feed = {inputs[name]: value for name, value in turned.items()}
for step in range(warmup + steps):
    if step == warmup:
        began = time.perf_counter()
    value, _ = session.run([loss, train], feed)
print(json.dumps({"seconds": time.perf_counter() - began, "loss": float(value)}))
