"""Training in JAX: one compiled function from state and batch to the next state and the loss."""

import functools

import channels_last
import jax
import numpy
from base_trainer import Base, expect_precision, optimizer_of
from frameworks.jax.flops import flops_of
from frameworks.jax.optimizers import OPTIMIZERS
from frameworks.jax.pipeline import Stages
from frameworks.jax.scopes import HOLDERS, Scope, Shapes, Sharded, gathered_again
from jax import numpy as jnp
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Split

PRODUCTS = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "default", "fp16": "default"}
"""Precision -> JAX's name for it; by default, JAX computes float32 in TF32 on GPUs."""

TYPES = {"bf16": jnp.bfloat16, "fp16": jnp.float16}

RANKS = ("stages", "copies", "shards")
"""Axes of the mesh: pipeline stages, replicas, and ranks that shard one replica. A fourth axis,
`tensor`, splits matrices; XLA decides what its ranks exchange."""

FIRST_SCALE, GROWTH_STEPS = 2.0**16, 2000
"""Loss scaling of fp16, as in PyTorch: doubled after GROWTH_STEPS, halved by an overflow."""


class Trainer(Base):
    """One rank. Convolutions are (height, width, in, out), as XLA recommends for CPU and GPU."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        params = context.params
        jax.config.update("jax_default_matmul_precision", PRODUCTS[context.precision])
        self.model = network.model(params)
        shapes, example = Shapes(), channels_last.batch(self.example())
        jax.eval_shape(lambda: network.loss(functools.partial(self.model, shapes), example))
        weights = self._initial(shapes.parameters)
        self.stages = Stages(context) if context.stages > 1 else None
        if self.stages:
            weights = self.stages.joined(weights)
        self.optimizer, slots = optimizer_of(params, OPTIMIZERS)
        kept_in = TYPES.get(context.case.get("state_precision"), jnp.float32)
        state = {
            "weights": weights,
            "slots": {name: [numpy.zeros_like(w, kept_in)] * slots for name, w in weights.items()},
            "averages": shapes.averages,
            "step": numpy.int32(1),
        }
        if context.precision == "fp16":
            state.update(loss_scale=numpy.float32(FIRST_SCALE), good_steps=numpy.int32(0))
        owners = context.devices_of_experts
        shards = context.case.get("shard", 1)
        self.split = {
            name: _split_axis(w.shape[1:], shards, self._tensor_axis(name))
            if self._of_a_stage(name)
            else _split_axis(w.shape, context.stages * shards, self._tensor_axis(name))
            for name, w in weights.items()
        }
        self.held = None
        if owners > 1:
            # Only experts use the axis of shards.
            own = [name for name in weights if name.split(".")[-2] in context.experts]
            shards, self.held = owners, params["experts"] // owners
            self.split.update(dict.fromkeys(own, 0))
        self.shards = shards
        self.averaged = context.grouped and context.data_ranks * context.stages > 1
        place, train, self.state = jax.device_put, self._train, state
        if context.grouped:
            shape = context.stages, -1, shards, context.tensor
            mesh = Mesh(numpy.array(jax.devices()).reshape(shape), (*RANKS, "tensor"))
            own, parts = Split(RANKS), self._specs(state, self._spec)
            place = functools.partial(self._global, mesh, own)
            # Each rank normalises and differentiates over its own batch, as in other lines.
            specs = {"in_specs": (parts, own), "out_specs": (parts, own), "check_vma": False}
            if self.averaged:
                train = jax.shard_map(train, mesh=mesh, axis_names=set(RANKS), **specs)
            split = self._specs(state, self._with_tensor_axis)
            self.state = jax.tree.map(functools.partial(_part, mesh), state, split)
        own_samples = self.stages.own_samples if self.stages else dict
        self.batches = self.feed(lambda batch: place(channels_last.batch(own_samples(batch))))
        self.train = jax.jit(train, donate_argnums=0)

    def _initial(self, shapes):
        made = self.initial_weights(
            {name: channels_last.shape_of_data(shape) for name, shape in shapes.items()}
        )
        turned = {name: channels_last.weight(value) for name, value in made.items()}
        return multihost_utils.broadcast_one_to_all(turned) if self.context.grouped else turned

    def _specs(self, state, spec_of):
        """Return the state's PartitionSpecs: those of weights and slots, the rest replicated."""
        parts = {name: spec_of(name) for name in self.split}
        specs = {**jax.tree.map(lambda _: Split(), state), "weights": parts}
        specs["slots"] = {name: [parts[name]] * len(each) for name, each in state["slots"].items()}
        return specs

    def _of_a_stage(self, name):
        return self.stages is not None and self.stages.has(name)

    def _spec(self, name):
        of_a_stage, axis = self._of_a_stage(name), self.split[name]
        lies = [RANKS[:1]] if of_a_stage else []
        if axis is not None:
            lies += [*[None] * axis, RANKS[2:] if of_a_stage else HOLDERS]
        return Split(*lies)

    def _shards_of(self, name):
        """Return over how many ranks a weight is sharded, without counting the axis `tensor`."""
        shards = 1 if self.split[name] is None else self.shards
        whole = self.split[name] is None and not self._of_a_stage(name)
        return 1 if whole else self.context.stages * shards

    def _tensor_axis(self, name):
        """Return the axis by which `tensor` splits a matrix (in, out); None if it does not."""
        if self.context.tensor == 1:
            return None
        kinds = [self.context.matrices[kind] for kind in ("rows", "columns")]
        module = name.split(".")[-2]
        return next((axis for axis, named in enumerate(kinds) if module in named), None)

    def _tensor_specs(self):
        """Return name -> PartitionSpec inside a layer, for the weights that `tensor` splits."""
        axes = {name: self._tensor_axis(name) for name in self.split}
        return {
            name: Split(*[None] * axis, "tensor") for name, axis in axes.items() if axis is not None
        }

    def _with_tensor_axis(self, name):
        """Return a weight's spec with its `tensor` axis, which stages shift by one dimension."""
        axis, spec = self._tensor_axis(name), self._spec(name)
        if axis is None:
            return spec
        first = 1 if self._of_a_stage(name) else 0
        axes = [*spec, None, None, None][: first + 2]
        axes[first + axis] = "tensor"
        return Split(*axes)

    @staticmethod
    def _global(mesh, spec, tree):
        sharding = NamedSharding(mesh, spec)
        place = functools.partial(jax.make_array_from_process_local_data, sharding)
        return jax.tree.map(place, tree)

    def _cast(self, tree):
        """Cast float32 arrays to the type of the case's precision."""
        dtype = TYPES.get(self.context.precision, jnp.float32)
        return jax.tree.map(lambda x: x.astype(dtype) if x.dtype == jnp.float32 else x, tree)

    def _train(self, state, batch):
        """Return the state after a step, and the loss as shape (1,) to concatenate over ranks."""
        params, scale = self.context.params, state.get("loss_scale")

        def scaled_loss(weights, batch):
            key = self._key(state["step"])
            split = self.split, self.held, self.stages, self._tensor_specs()
            scope = Sharded(self._cast(weights), state["averages"], key, *split)
            model = functools.partial(self.model, scope)
            loss = self.network.loss(model, batch)
            return loss if scale is None else loss * scale, (loss, scope.averages)

        if self.context.case.get("shard_stage") == 3 and not self.stages:
            scaled_loss = gathered_again(scaled_loss)
        found = self._by_micro_batches(jax.value_and_grad(scaled_loss, has_aux=True))
        (_, (loss, averages)), gradients = found(state["weights"], self._cast(batch))
        if self.averaged:
            averages = jax.lax.pmean(averages, RANKS)
            gradients = {name: self._mean(name, each) for name, each in gradients.items()}
        if self.stages:  # One loss for all devices that compute the same samples.
            loss = jax.lax.pmean(loss, "stages")
        new = {**state, "averages": averages, "weights": {}, "slots": {}, "step": state["step"] + 1}
        for name, weight in state["weights"].items():
            slots, gradient = state["slots"][name], gradients[name]
            if scale is not None:
                gradient = gradient / scale
            wide = [slot.astype(jnp.float32) for slot in slots]
            update = functools.partial(self.optimizer, params, state["step"])
            if self._of_a_stage(name):
                update = jax.vmap(update)  # Each layer's shape says whether it decays.
            new["weights"][name], *wide = update(weight, gradient, *wide)
            new["slots"][name] = [each.astype(slot.dtype) for each, slot in zip(wide, slots)]
        if scale is not None:
            new = self._unless_overflown(state, new, gradients)
        return new, loss.reshape(1)

    def _by_micro_batches(self, function):
        """Return `function` of weights and batch, averaged over consecutive micro-batches."""
        parts = 1 if self.stages else self.context.case.get("micro_batches", 1)
        if parts == 1:
            return function

        def mean(weights, batch):
            cut = jax.tree.map(lambda x: x.reshape(parts, -1, *x.shape[1:]), batch)
            made = jax.eval_shape(function, weights, jax.tree.map(lambda x: x[0], cut))
            zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), made)

            def add(total, part):
                return jax.tree.map(jnp.add, total, function(weights, part)), None

            total, _ = jax.lax.scan(add, zeros, cut)
            return jax.tree.map(lambda each: each / parts, total)

        return mean

    def _key(self, step):
        """Return the random key of this rank and step."""
        # JAX's collectives require the same program on every rank.
        rank = jax.lax.axis_index(RANKS) if self.averaged else 0
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(0), rank), step)

    def _mean(self, name, gradient):
        """Return the mean gradient over ranks; shards, stages and experts hold a sum already."""
        axes = RANKS[1:] if self._of_a_stage(name) else RANKS
        if self.split[name] is not None:
            axes = "copies"
        return jax.lax.pmean(gradient, axes) / self._shards_of(name)

    @staticmethod
    def _unless_overflown(state, new, gradients):
        """Return the new state; after an overflow, the old state with half the loss scale."""
        finite = jnp.stack([jnp.isfinite(g).all() for g in jax.tree.leaves(gradients)]).all()
        good = jnp.where(finite, state["good_steps"] + 1, 0)
        kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, state)
        grown = good == GROWTH_STEPS
        factor = jnp.where(finite, jnp.where(grown, 2.0, 1.0), 0.5)
        scale = {"loss_scale": state["loss_scale"] * factor}
        return {**kept, **scale, "good_steps": jnp.where(grown, 0, good)}

    def step(self):
        """Run forward, backward and update as one compiled function, which returns at once."""
        batch = next(self.batches)
        self.state, loss = self.train(self.state, batch)
        self.context.runtime.pending = self.state, loss
        self.kept.append(loss)

    def updates_made(self):
        """Return the number of updates; an overflow leaves the state and this number unchanged."""
        scaled = self.context.precision == "fp16"
        return int(_local(self.state["step"])) - 1 if scaled else None

    def count_step(self):
        """Run one more step, and count the FLOPs in the trace of the compiled function.

        It does not count stages, because idle ticks compute too, nor split experts, because each
        device traces the rows of all devices.
        """
        if self.stages or self.context.devices_of_experts > 1:
            return
        train, traced = self.train, []

        def traced_too(*given):
            traced.append(train.trace(*given).jaxpr)
            return train(*given)

        self.train = traced_too
        self.step()
        self.train = train
        self.flops_per_step = sum(map(flops_of, traced)) / self.context.tensor

    def _forward(self, function):
        weights = self._cast({name: jnp.asarray(each) for name, each in self.weights().items()})
        scope = Scope(weights, {}, jax.random.key(0))
        compiled = jax.jit(functools.partial(function, functools.partial(self.model, scope)))
        batch = jax.tree.map(_local, next(self.batches))
        return numpy.asarray(compiled(self._cast(batch)))

    def losses(self):
        """Return the losses of all steps so far."""
        return [float(loss.addressable_data(0)[0]) for loss in self.kept]

    def weights(self):
        """Return name -> value of all trainable parameters."""
        weights = self.state["weights"]
        if self.context.tensor > 1 or any(self._shards_of(name) > 1 for name in weights):
            weights = multihost_utils.process_allgather(weights, tiled=True)
        if self.stages:
            weights = self.stages.apart(weights)
        return {
            name: channels_last.weight_of_data(_local(weight)) for name, weight in weights.items()
        }

    def modes_used(self):
        """Return whether XLA compiled the step, and how this rank's weights are really split."""
        context, found = self.context, {"compiler": "xla" if self.train._cache_size() else "none"}
        parts = {
            name: weight.size // weight.addressable_data(0).size
            for name, weight in self.state["weights"].items()
        }
        split = {name: parts[name] for name, axis in self.split.items() if axis is not None}
        if context.case.get("shard_stage") == 2:
            shards = [number // context.stages for number in split.values()]
            found["shard_stage"] = "2" if shards and min(shards) > 1 else "none"
        if context.case.get("shard_stage") == 3 and self.stages:
            found["shard_stage"] = self._gathered_by_parts()
        if context.tensor > 1:
            kinds = (*context.matrices["rows"], *context.matrices["columns"])
            found["tensor"] = str(
                min(
                    number // self._shards_of(name)
                    for name, number in parts.items()
                    if name.split(".")[-2] in kinds
                )
            )
        if context.devices_of_experts > 1:
            found["expert"] = str(min(split.values()) if split else 1)
        if self.stages:
            layers = filter(self._of_a_stage, parts)
            own = min(parts[name] * context.stages // self._shards_of(name) for name in layers)
            found["schedule"] = "gpipe" if own == context.stages else "none"
        if self.context.case.get("state_precision") == "bf16":
            kept = {slot.dtype == jnp.bfloat16 for slot in jax.tree.leaves(self.state["slots"])}
            found["state_precision"] = "bf16" if kept == {True} else "fp32"
        return found

    def _gathered_by_parts(self):
        """Return "3" if the loops of forward and backward both gather weights, otherwise "2"."""
        text = self.train.lower(self.state, next(self.batches)).compile().as_text()
        looped = [each for each in text.split("\n\n") if not each.startswith("ENTRY")]
        return "3" if sum(" all-gather" in each for each in looped) >= 2 else "2"

    def precision_proof(self):
        """Return the precision that products with 1 + 2^-12 show: TF32, bfloat16 round it to 1."""
        fine, unit = self._cast((jnp.full((256, 256), 1 + 2.0**-12), jnp.eye(256)))
        image, filters = fine.reshape(1, 16, 16, 256), unit.reshape(1, 1, 256, 256)
        layout = ("NHWC", "HWIO", "NHWC")
        product = fine @ unit
        image = jax.lax.conv_general_dilated(image, filters, (1, 1), "VALID", None, None, layout)
        for name, dtype in TYPES.items():
            if product.dtype == dtype:
                return expect_precision(self.context.precision, name)
        exact = [bool((value.reshape(256, 256) == fine).all()) for value in (product, image)]
        if exact[0] != exact[1]:
            raise RuntimeError("only one of a matrix product and a convolution is computed in TF32")
        return expect_precision(self.context.precision, "fp32" if exact[0] else "tf32")


def _split_axis(shape, shards, taken):
    """Return the first axis, except `taken`, that has `shards` equal parts; None: not sharded."""
    if shards == 1:
        return None
    fits = (axis for axis, size in enumerate(shape) if axis != taken and size % shards == 0)
    return next(fits, None)


def _part(mesh, value, spec):
    """Return a global array of which each rank stores the shard that the spec assigns to it."""
    value = numpy.asarray(value)
    return jax.make_array_from_callback(value.shape, NamedSharding(mesh, spec), value.__getitem__)


def _local(weight):
    """Return this rank's shard of an array, as a NumPy array."""
    return numpy.asarray(weight.addressable_data(0) if isinstance(weight, jax.Array) else weight)
