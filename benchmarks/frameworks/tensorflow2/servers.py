"""Training in TensorFlow 2 with parameter servers, by tf.distribute's ParameterServerStrategy.

One process, the chief, is measured: it schedules the steps of all workers. A free worker takes the
next step with a batch of its own, reads the weights from the servers (ps) and updates them there.
"""

import functools

import channels_last
import numpy
import tensorflow as tf
from apis.tensorflow.flops import flops_of
from apis.tensorflow.optimizers import OPTIMIZERS
from apis.tensorflow.scope import Scope
from base_trainer import Base, DoesNotFit, expect_precision, optimizer_of

AHEAD = 8
"""Maximum scheduled and unfinished steps of a worker, so that none waits for a slower one."""

EXPECTED = {"compiler": "none", "execution": "default", "data": "synthetic"}
"""Required values of axes; with other values, a worker would run another step."""

SAVED = "batches"
"""Folder of a worker's batches, in the folder of its process."""


class ScopeTrainer(Base):
    """A trainer whose network stores its weights in a scope."""

    def new_model(self, dtype=tf.float32):
        """Set the scope and the model, which computes in this type."""
        self.scope = Scope(dtype)
        self.model = functools.partial(self.network.model(self.context.params), self.scope)

    def loss_of(self, batch):
        """Return the loss of a batch."""
        return self.network.loss(self.model, batch)

    def load(self):
        """Give the variables the weights of data.py."""
        named = self.scope.weights
        made = self.initial_weights(
            {name: channels_last.shape_of_data(weight.shape) for name, weight in named.items()}
        )
        for name, weight in named.items():
            weight.assign(channels_last.weight(made[name]))

    def weights(self):
        """Return name -> value of all trainable parameters."""
        named = self.scope.weights
        return {name: channels_last.weight_of_data(w.numpy()) for name, w in named.items()}


class Task(Base):
    """A worker, which runs the steps that it gets, or a server, which stores weights."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        if context.role == "worker":
            synthetic = self.feed(channels_last.batch)
            batches = [next(synthetic) for _ in range(context.params["batches"])]
            named = {name: numpy.stack([each[name] for each in batches]) for name in batches[0]}
            tf.data.Dataset.from_tensor_slices(named).save(SAVED)

    def serve(self):
        """Execute what the chief schedules, until the agent ends this process."""
        self.context.runtime.new_server().join()


class Chief(ScopeTrainer):
    """Schedules one step for each worker, and counts the updates on the servers."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        for axis, expected in EXPECTED.items():
            if context.case[axis] != expected:
                raise DoesNotFit(
                    "found {} {!r}; expected {!r} with parameter servers of tensorflow2".format(
                        axis, context.case[axis], expected
                    )
                )
        runtime, params = context.runtime, context.params
        self.coordinator, self.workers = runtime.coordinator, runtime.workers
        self.samples_per_step *= self.workers
        self.new_model()
        batch = channels_last.batch(self.example())
        inputs = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in batch.items()}
        with runtime.strategy.scope():  # variables lie on the servers in turn
            tf.function(self.loss_of).get_concrete_function(inputs)
            named = self.scope.weights
            self.optimizer, slots = optimizer_of(params, OPTIMIZERS)
            self.slots = [
                [tf.Variable(tf.zeros(w.shape)) for _ in range(slots)] for w in named.values()
            ]
            self.updates = tf.Variable(0, dtype=tf.int64)
        self.load()
        self.batches = iter(
            self.coordinator.create_per_worker_dataset(
                lambda: tf.data.Dataset.load(SAVED, inputs).cache().repeat()
            )
        )
        self.train = tf.function(self._train)

    def _train(self, batches):
        self.traced = tf.compat.v1.get_default_graph()
        weights = list(self.scope.weights.values())
        with tf.GradientTape() as tape:
            loss = self.loss_of(next(batches))
        gradients = tape.gradient(loss, weights)
        step = self.updates.assign_add(1)
        for weight, slots, gradient in zip(weights, self.slots, gradients):
            self.optimizer(self.context.params, step, weight, gradient, *slots)
        return loss

    def step(self):
        """Schedule a step for each worker; wait if a worker is more than AHEAD steps behind."""
        scheduled = [
            self.coordinator.schedule(self.train, args=(self.batches,)) for _ in range(self.workers)
        ]
        self.context.runtime.pending = functools.partial(_wait_for, scheduled)
        self.kept.append(scheduled)
        if len(self.kept) > AHEAD:
            _wait_for(self.kept[-1 - AHEAD])

    def count_step(self):
        """Count the FLOPs of the graph that each worker runs in a step."""
        self.flops_per_step = self.workers * flops_of(self.traced)

    def losses(self):
        """Return the mean loss of the workers in each step so far."""
        self.coordinator.join()
        sent, updates = len(self.kept) * self.workers, int(self.updates.numpy())
        if updates != sent:
            raise RuntimeError("found {} updates on the servers; expected {}".format(updates, sent))
        return [float(numpy.mean([loss.fetch() for loss in step])) for step in self.kept]

    def precision_proof(self):
        """Return the precision that a worker's product with 1 + 2^-12 shows: TF32 gives 1."""
        exact = self.coordinator.schedule(tf.function(_exact_product)).fetch()
        return expect_precision(self.context.precision, "fp32" if exact else "tf32")


def _exact_product():
    fine = tf.fill([256, 256], 1 + 2.0**-12)
    return tf.reduce_all(tf.matmul(fine, tf.eye(256)) == fine)


def _wait_for(losses):
    for loss in losses:
        loss.get()
