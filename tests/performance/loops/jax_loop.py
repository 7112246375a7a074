"""A JAX loop: one jitted update with donated state, as JAX's examples write it."""

import functools

import channels_last
import jax
from jax import numpy as jnp

PRODUCTS = {"fp32": "highest", "tf32": "tensorfloat32"}


class Scope:
    """The network's parameters: given, or made on the first call."""

    def __init__(self, parameters=None):
        self.made = {} if parameters is None else None
        self.parameters, self.averages = parameters, {}

    def parameter(self, name, *shape):
        """That of a name."""
        if self.made is None:
            return self.parameters[name]
        return self.made.setdefault(name, jnp.full(shape, 0.01, jnp.float32))

    def average(self, name, value):
        """Is kept."""
        self.averages[name] = value

    def dropout(self, x, rate):
        """Does nothing: `build` refuses workloads that have it."""
        return x

    def by_experts(self, function, rows, weights, chosen):
        """What experts make of rows: all of them are here."""
        return function(rows, weights, chosen)

    def by_layers(self, layer, count, x):
        """What so many layers make of x."""
        for number in range(count):
            x = layer("layers.{}".format(number), x)
        return x


def momentum(params, count, slots, w, g):
    """One weight's update, in the workload's numbers."""
    velocity = params["momentum"] * slots[0] + g + params["weight_decay"] * w
    return w - params["learning_rate"] * velocity, [velocity]


def adamw(params, count, slots, w, g):
    """The same."""
    beta1, beta2, rate = params["beta1"], params["beta2"], params["learning_rate"]
    mean = beta1 * slots[0] + (1 - beta1) * g
    square = beta2 * slots[1] + (1 - beta2) * g * g
    found = mean / (1 - beta1**count)
    found /= jnp.sqrt(square / (1 - beta2**count)) + params["epsilon"]
    return w - rate * (found + params["weight_decay"] * w), [mean, square]


def build(given):
    """One step, and a wait for the device."""
    axes = {"precision": list(PRODUCTS), "compiler": ["none", "xla"]}
    given.only(optimizer=["momentum", "adamw"], dropout=False, **axes)
    jax.config.update("jax_platforms", "cuda" if given.gpu else "cpu")
    jax.config.update("jax_default_matmul_precision", PRODUCTS[given.case["precision"]])
    network, params = given.network("jax"), given.params
    batch = {name: jnp.asarray(x) for name, x in channels_last.batch(given.batch).items()}
    apply, first = network.model(params), Scope()
    network.loss(functools.partial(apply, first), batch)
    optimizer, slots = {"momentum": (momentum, 1), "adamw": (adamw, 2)}[params["optimizer"]]
    weights = first.made
    zeros = {name: [jnp.zeros_like(w) for _ in range(slots)] for name, w in weights.items()}
    state = [(weights, zeros, first.averages, jnp.float32(1)), None]

    @functools.partial(jax.jit, donate_argnums=0)
    def update(state, batch):
        weights, slots, averages, count = state

        def loss_of(weights):
            scope = Scope(weights)
            return network.loss(functools.partial(apply, scope), batch), scope.averages

        (loss, found), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
        averages = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, averages, found)
        new = {n: optimizer(params, count, slots[n], w, gradients[n]) for n, w in weights.items()}
        weights = {name: each[0] for name, each in new.items()}
        return (weights, {name: each[1] for name, each in new.items()}, averages, count + 1), loss

    def step():
        state[:] = update(state[0], batch)

    def wait():
        jax.block_until_ready(state)
        return float(state[1])

    return step, wait
