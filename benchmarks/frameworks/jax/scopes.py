"""The scopes of a network in JAX: weights by name, gathered if sharded, and random numbers."""

import functools

import jax
import numpy
from jax import numpy as jnp

HOLDERS = ("stages", "shards")
"""Axes whose ranks shard weights outside of stages."""


def gathered_again(function):
    """Return the function with a backward that gathers weights again and keeps all other values.

    Broadcasts of a gathered weight are also computed again.
    """
    names = "all_gather", "broadcast_in_dim"
    return jax.checkpoint(function, policy=lambda primitive, *_, **__: primitive.name not in names)


def gathered_once(gather):
    """Return a function that gathers a stage's weights; busy ticks scatter their gradients.

    In ticks without a micro-batch the gradients are zeros, which no rank needs to send.

    Args:
        gather: function from {name: shard} to {name: weight}.

    Return a function of {name: shard} and of whether the tick has a micro-batch, which is the same
    on all ranks of a stage.
    """

    @jax.custom_vjp
    def gathered(parts, is_busy):
        return gather(parts)

    def scattered(kept, gradients):
        parts, is_busy = kept

        def scatter():
            return jax.vjp(gather, parts)[1](gradients)[0]

        return jax.lax.cond(is_busy, scatter, lambda: jax.tree.map(jnp.zeros_like, parts)), None

    gathered.defvjp(lambda *given: (gathered(*given), given), scattered)
    return gathered


class Scope:
    """The weights of a network by name, the running averages after a step, and random numbers."""

    def __init__(self, parameters, averages, key):
        self.parameters, self.old, self.key = parameters, averages, key
        self.averages = {}

    def parameter(self, name, *shape):
        """The trainable parameter of that name."""
        return self.parameters[name]

    def average(self, name, value):
        """Update a running average for inference: 0.9 of the old average plus 0.1 of the value."""
        self.averages[name] = 0.9 * self.old[name] + 0.1 * value

    def dropout(self, x, rate):
        """Replace a share `rate` of the values by zeros and scale up the others."""
        if not rate:
            return x
        self.key, key = jax.random.split(self.key)
        return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)

    def by_experts(self, function, rows, weights, chosen):
        """Return the weighted output of experts for rows (rows, hidden)."""
        return function(rows, weights, chosen)

    def by_layers(self, layer, count, x):
        """Return the output of `count` layers for x; each layer gets the previous one's output."""
        for number in range(count):
            x = layer("layers.{}".format(number), x)
        return x


class Sharded(Scope):
    """A scope whose weights are gathered where they are used; their gradients are scattered.

    Experts are not gathered: each rank has `held` of them and computes the rows that all ranks send
    to these; with None, each rank has all experts. Layers are not gathered over `stages`, either.
    `matrices`: name -> how `tensor` splits it; each device gathers its own columns or rows.
    """

    def __init__(self, parameters, averages, key, split, held, stages, matrices):
        super().__init__(parameters, averages, key)
        self.split, self.held, self.stages, self.matrices = split, held, stages, matrices
        self.whole = {}

    def gather_once(self, is_busy):
        """Gather the weights of this rank's stage for a tick with or without a micro-batch.

        XLA sees that all ticks gather the same weights, and gathers them once.
        """
        split = [name for name, axis in self.split.items() if axis is not None]
        parts = {name: self.parameters[name][0] for name in split if self.stages.has(name)}

        def gather(parts):
            return {name: self._gathered(name, part, "shards") for name, part in parts.items()}

        self.whole = gathered_once(gather)(parts, is_busy)

    def _gathered(self, name, part, axes):
        gather = functools.partial(
            jax.lax.all_gather, axis_name=axes, axis=self.split[name], tiled=True
        )
        spec = self.matrices.get(name)
        if spec is not None:  # Otherwise XLA also gathers over `tensor`.
            specs = {"in_specs": spec, "out_specs": spec, "check_vma": False}
            gather = jax.shard_map(gather, axis_names={"tensor"}, **specs)
        return gather(part)

    def by_layers(self, layer, count, x):
        """Return the output of all layers for x; with stages, each rank computes its stage."""
        if self.stages is None:
            return super().by_layers(layer, count, x)
        return self.stages.through(layer, x, self.gather_once)

    def parameter(self, name, *shape):
        """Return a whole parameter, gathered from the ranks if it is sharded."""
        if name in self.whole:
            return self.whole[name]
        part, axes = self.parameters[name], HOLDERS
        if self.stages and self.stages.has(name):
            part, axes = part[0], "shards"
        if self.split[name] is None or self.held is not None:
            return part
        return self._gathered(name, part, axes)

    def by_experts(self, function, rows, weights, chosen):
        """Return the same, computed by the experts of all ranks for this rank's rows."""
        if self.held is None:
            return function(rows, weights, chosen)
        rows, weights, chosen = (
            jax.lax.all_gather(each, "shards", tiled=True) for each in (rows, weights, chosen)
        )
        own = chosen - jax.lax.axis_index("shards") * self.held
        here = (own >= 0) & (own < self.held)
        made = function(rows, jnp.where(here, weights, 0), jnp.where(here, own, self.held))
        return jax.lax.psum_scatter(made, "shards", tiled=True)


class Shapes(Scope):
    """A scope that records shapes while a network is traced without computing anything."""

    def __init__(self):
        super().__init__({}, {}, jax.random.key(0))

    def parameter(self, name, *shape):
        """Record the shape; return zeros."""
        self.parameters[name] = shape
        return jnp.zeros(shape)

    def average(self, name, value):
        """Record zeros in the value's shape."""
        self.averages[name] = numpy.zeros(value.shape, "float32")
