"""Layers split over devices, one after another: GPipe (Huang et al. 2019, arXiv:1811.06965).

All ranks run one program: in each tick a stage computes one micro-batch and sends it on, and JAX
differentiates all ticks together. Weights before and after the layers have no stage: each rank
stores a shard of them, gathers them, and computes its own samples, as MaxText does. Ranks that
compute the same stage of other samples may shard its weights, too. At shard stage 3, each
micro-batch gathers these weights for its forward and again for its backward.
"""

import jax
import numpy
from frameworks.jax.scopes import gathered_again
from jax import numpy as jnp

AXIS = "stages"
"""Axis of the mesh."""


class Stages:
    """The layers of a network by stages, with the same number of layers in each stage.

    Args:
        context: see `rank.Context`; its workload's `shards` names the list of layers.
    """

    def __init__(self, context):
        self.count, self.parts = context.stages, context.case.get("micro_batches", 1)
        self.prefix = context.shards + "."
        self.each = context.params["layers"] // self.count
        self.shard_stage = context.case.get("shard_stage")
        self.own = context.rank // (context.data_ranks * context.tensor)

    def own_samples(self, batch):
        """Return this rank's samples of a batch, which is the same for all stages."""
        return {name: numpy.split(value, self.count)[self.own] for name, value in batch.items()}

    def has(self, name):
        """Return whether a weight belongs to a layer."""
        return name.startswith(self.prefix)

    def joined(self, named):
        """Return name -> weight, with the weights at the same place of all stages stacked.

        A stacked weight has stages as its first dimension and the name of the first stage's weight.
        """
        first = [name for name in named if not self.has(name) or self._split(name)[0] < self.each]
        return {
            name: numpy.stack([named[each] for each in self._of_all(name)])
            if self.has(name)
            else named[name]
            for name in first
        }

    def apart(self, joined):
        """The inverse of `joined`."""
        named = {}
        for name, value in joined.items():
            named.update(zip(self._of_all(name), value) if self.has(name) else {name: value})
        return named

    def _split(self, name):
        number, _, rest = name[len(self.prefix) :].partition(".")
        return int(number), rest

    def _of_all(self, name):
        number, rest = self._split(name)
        places = range(number, number + self.count * self.each, self.each)
        return ["{}{}.{}".format(self.prefix, place, rest) for place in places]

    def through(self, layer, x, gather_once):
        """Return the output of the layers of all stages for this rank's samples.

        Args:
            layer: function of a layer's name and its input.
            x: (n, ...), the shape of all layers' inputs and outputs.
            gather_once: gathers these weights; its argument is whether a tick has a micro-batch.
        """
        last, stage = self.count - 1, jax.lax.axis_index(AXIS)
        parts = jax.lax.all_gather(x, AXIS, tiled=True).reshape(self.parts, -1, *x.shape[1:])
        # The last part needs this many more ticks. In these the first stage computes values that
        # nobody uses, as the other stages do before the first part arrives.
        idle = jnp.zeros_like(parts, shape=(last, *parts.shape[1:]))

        def own_layers(y):
            for place in range(self.each):
                y = layer("{}{}".format(self.prefix, place), y)
            return y

        def tick(handed_on, given):
            now, part = given
            y = jnp.where(stage == 0, part, handed_on)
            is_busy = (now >= stage) & (now < stage + self.parts)
            if self.shard_stage == 3:  # In a branch: XLA moves no gather out of it.
                y = jax.lax.cond(is_busy, gathered_again(own_layers), lambda y: y, y)
            else:
                if self.shard_stage == 2:
                    gather_once(is_busy)
                y = own_layers(y)
            return jax.lax.ppermute(y, AXIS, [(at, at + 1) for at in range(last)]), y

        given = jnp.arange(self.parts + last), jnp.concatenate([parts, idle])
        _, made = jax.lax.scan(tick, idle[0], given)
        whole = jnp.where(stage == last, made[last:], 0).reshape(-1, *x.shape[1:])
        return jax.lax.psum_scatter(whole, AXIS, tiled=True)
