"""A plain JAX loop: one jitted update with donated state, as JAX's examples write it."""

import functools
import json
import time

import jax
from _arguments import batch, module, params, steps, warmup
from jax import numpy as jnp

network = module("jax")
jax.config.update("jax_default_matmul_precision", "highest")


class Scope:
    """The network's parameters: given, or made of zeros on the first call."""

    def __init__(self, parameters=None):
        self.made = {} if parameters is None else None
        self.parameters, self.averages = parameters, {}

    def parameter(self, name, *shape):
        if self.made is None:
            return self.parameters[name]
        return self.made.setdefault(name, jnp.full(shape, 0.01))

    def average(self, name, value):
        self.averages[name] = value

    def dropout(self, x, rate):
        return x


batch = {n: jnp.asarray(v.transpose(0, 2, 3, 1) if v.ndim == 4 else v) for n, v in batch.items()}
apply = network.model(params)
first = Scope()
network.loss(functools.partial(apply, first), batch)
weights = first.made
state = (weights, jax.tree.map(jnp.zeros_like, weights), first.averages)


@functools.partial(jax.jit, donate_argnums=0)
def update(state, batch):
    weights, velocity, averages = state

    def loss_of(weights):
        scope = Scope(weights)
        return network.loss(functools.partial(apply, scope), batch), scope.averages

    (loss, found), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
    decay, rate = params["weight_decay"], params["learning_rate"]
    velocity = jax.tree.map(
        lambda v, g, w: params["momentum"] * v + g + decay * w, velocity, gradients, weights
    )
    weights = jax.tree.map(lambda w, v: w - rate * v, weights, velocity)
    averages = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, averages, found)
    return (weights, velocity, averages), loss


for step in range(warmup + steps):
    if step == warmup:
        jax.block_until_ready(state)
        began = time.perf_counter()
    state, loss = update(state, batch)
jax.block_until_ready(state)
print(json.dumps({"seconds": time.perf_counter() - began, "loss": float(loss)}))
