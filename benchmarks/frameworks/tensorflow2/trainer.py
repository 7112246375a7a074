"""Training in TensorFlow 2: a custom loop over a tf.function, as its guide advises."""

import channels_last
import tensorflow as tf
from apis.tensorflow.flops import flops_of
from apis.tensorflow.optimizers import OPTIMIZERS
from base_trainer import expect_precision, optimizer_of
from frameworks.tensorflow2.servers import Chief, ScopeTrainer, Task

TYPES = {"bf16": tf.bfloat16, "fp16": tf.float16}

FIRST_SCALE, GROWTH_STEPS = 2.0**16, 2000
"""Loss scaling of fp16, as in PyTorch: doubled after GROWTH_STEPS, halved by an overflow."""


def Trainer(context, network, data):
    """Return the trainer of a case."""
    if context.case["strategy"] != "parameter_server":
        return RankTrainer(context, network, data)
    return (Chief if context.measured else Task)(context, network, data)


class RankTrainer(ScopeTrainer):
    """One rank."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        params = context.params
        tf.config.experimental.enable_tensor_float_32_execution(context.precision == "tf32")
        self.dtype = TYPES.get(context.precision, tf.float32)
        self.new_model(self.dtype)
        self.batches = self.feed(self._on_device)
        # makes the variables
        tf.function(self.loss_of).get_concrete_function(self._on_device(self.example()))
        named = self.scope.weights
        self.load()
        if context.grouped:
            mine = 1.0 if context.rank == 0 else 0.0
            of_rank_0 = self._all_reduce("SUM", [mine * weight for weight in named.values()])
            for weight, value in zip(named.values(), of_rank_0):
                weight.assign(value)
        self.optimizer, slots = optimizer_of(params, OPTIMIZERS)
        self.slots = [[tf.Variable(tf.zeros_like(w)) for _ in range(slots)] for w in named.values()]
        self.steps = tf.Variable(0, dtype=tf.int64)
        self.loss_scale = None
        if context.precision == "fp16":
            self.loss_scale, self.good_steps = tf.Variable(FIRST_SCALE), tf.Variable(0)

        xla, eager = context.case["compiler"] == "xla", context.case["execution"] == "eager"
        # XLA does not compile collectives.
        whole = not (eager or context.grouped)
        if xla and not whole:
            self._backward = tf.function(self._backward, jit_compile=True)
            self._update = tf.function(self._update, jit_compile=True)
        self.train = self._train if eager else tf.function(self._train, jit_compile=xla and whole)
        self.compiled = [self.train] if whole else [self._backward, self._update]

    def _on_device(self, batch):
        return {name: self._cast(value) for name, value in channels_last.batch(batch).items()}

    def _cast(self, value):
        """Return a tensor on the device; floating-point values get the type of the precision."""
        return tf.constant(value, self.dtype if value.dtype.kind == "f" else None)

    def _backward(self, batch):
        """Return the loss and all gradients; fp16 gradients are multiplied by the loss scale."""
        with tf.GradientTape() as tape:
            loss = self.loss_of(batch)
            scaled = (
                loss if self.loss_scale is None else tf.cast(loss, tf.float32) * self.loss_scale
            )
        return loss, tape.gradient(scaled, list(self.scope.weights.values()))

    def _all_reduce(self, operation, tensors):
        operation = getattr(tf.distribute.ReduceOp, operation)

        def in_replica(*values):
            # Here a tensor gets the replica's device, which all_reduce needs.
            values = [tf.identity(value) for value in values]
            return tf.distribute.get_replica_context().all_reduce(operation, values)

        return self.context.runtime.strategy.run(in_replica, args=tuple(tensors))

    def _update(self, gradients):
        step = self.steps.assign_add(1)
        for weight, slots, gradient in zip(self.scope.weights.values(), self.slots, gradients):
            self.optimizer(self.context.params, step, weight, gradient, *slots)

    def _update_unless_overflown(self, gradients):
        """Update the weights, or halve the loss scale after an overflow; double it now and then."""
        gradients = [gradient / self.loss_scale for gradient in gradients]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
        if finite:
            self._update(gradients)
        self.good_steps.assign(self.good_steps + 1 if finite else 0)
        if not finite:
            self.loss_scale.assign(self.loss_scale * 0.5)
        elif self.good_steps == GROWTH_STEPS:
            self.loss_scale.assign(self.loss_scale * 2.0)
            self.good_steps.assign(0)

    def _train(self, batch):
        loss, gradients = self._backward(batch)
        if self.context.grouped:
            dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
            gradients = self._all_reduce("MEAN", dense)
        if self.loss_scale is not None:
            self._update_unless_overflown(gradients)
        else:
            self._update(gradients)
        return loss

    def step(self):
        """Run forward, backward and update; the loss stays a tensor."""
        loss = self.train(next(self.batches))
        self.context.runtime.pending = loss.numpy
        self.kept.append(loss)

    def updates_made(self):
        """Return the optimizer's steps, which do not include steps with an overflow."""
        return None if self.loss_scale is None else int(self.steps.numpy())

    def count_step(self):
        """Run one more step, and count the FLOPs of the graph that it runs."""
        train, graphs = self.train, []
        function = train if hasattr(train, "get_concrete_function") else tf.function(train)

        def traced_too(batch):
            graphs.append(function.get_concrete_function(batch).graph)
            return train(batch)

        self.train = traced_too
        self.step()
        self.train = train
        self.flops_per_step = sum(map(flops_of, graphs))

    def modes_used(self):
        """Return whether Python runs each step, and whether XLA compiled the traced functions.

        If XLA must compile a function and cannot, TensorFlow raises an error and does not run it.
        """
        graph = hasattr(self.train, "get_concrete_function")
        compiled = all(getattr(step, "_jit_compile", None) for step in self.compiled)
        traced = compiled and all(step.experimental_get_tracing_count() for step in self.compiled)
        return {
            "execution": "default" if graph else "eager",
            "compiler": "xla" if traced else "none",
        }

    def precision_proof(self):
        """Return the precision that products with 1 + 2^-12 show: TF32, bfloat16 round it to 1."""
        fine = tf.cast(tf.fill([256, 256], 1 + 2.0**-12), self.dtype)
        unit = tf.eye(256, dtype=self.dtype)
        product = tf.matmul(fine, unit)
        for name, dtype in TYPES.items():
            if product.dtype == dtype:
                return expect_precision(self.context.precision, name)
        image, filters = tf.reshape(fine, [1, 16, 16, 256]), tf.reshape(unit, [1, 1, 256, 256])
        exact = [
            bool(tf.reduce_all(tf.reshape(value, [256, 256]) == fine))
            for value in (product, tf.nn.conv2d(image, filters, 1, "VALID"))
        ]
        if exact[0] != exact[1]:
            raise RuntimeError("only one of a matrix product and a convolution is computed in TF32")
        return expect_precision(self.context.precision, "fp32" if exact[0] else "tf32")
