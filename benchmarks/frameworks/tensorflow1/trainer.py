"""Training in TensorFlow 1: a graph, alone, between ranks, or with parameter servers."""

import functools

import channels_last
import tensorflow as tf
from apis.tensorflow.optimizers import OPTIMIZERS
from apis.tensorflow.scope import Scope
from base_trainer import Base, expect_precision, optimizer_of
from tensorflow.python.ops import collective_ops

GROUP = 1
"""Key of the ranks as a group of collectives."""


class GraphScope(Scope):
    """Keeps the updates of running averages, which a step has to run."""

    def __init__(self):
        super().__init__()
        self.updates = []

    def average(self, name, value):
        """Follows a value over the steps, for inference."""
        self.updates.append(super().average(name, value))


def _readers(weight):
    """Operations that take the value of a variable."""
    reads = [op for op in weight.handle.consumers() if op.type == "ReadVariableOp"]
    return [reader for read in reads for reader in read.outputs[0].consumers()]


class Trainer(Base):
    """The graph of one trainer. A parameter server has none of its own."""

    instances = 0
    """Collectives in the graph; the number of each is its key."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        if not context.measured:
            return
        runtime = context.runtime
        self.batches = self.feed(channels_last.batch)
        inputs = {
            name: tf.compat.v1.placeholder(value.dtype, value.shape)
            for name, value in channels_last.batch(self.example()).items()
        }
        self.scope = GraphScope()
        with tf.device(self._placement()):
            loss = network.loss(
                functools.partial(network.model(context.params), self.scope), inputs
            )
            train = self._train(loss)
            self.named = self.scope.weights
            self.values = {
                name: tf.compat.v1.placeholder(weight.dtype, weight.shape)
                for name, weight in self.named.items()
            }
            self.assign = self._assign()
        self.session = tf.compat.v1.Session(runtime.target, config=runtime.config)
        self._initialise()
        self.names = list(inputs)
        self.run = self.session.make_callable([loss, train], list(inputs.values()))
        self.kept = []

    def _placement(self):
        """Where variables and all else lie."""
        context = self.context
        own = "/job:trainer/task:{}".format(context.rank)
        if context.runtime.cluster is None or context.grouped:
            return own if context.grouped else None
        return tf.compat.v1.train.replica_device_setter(
            cluster=context.runtime.cluster, ps_device="/job:pserver", worker_device=own
        )

    def _train(self, loss):
        """The operation of one step."""
        case, weights = self.context.case, list(self.scope.weights.values())
        gradients = tf.gradients(loss, weights)
        if self.context.grouped:
            dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
            return self._update(weights, self._all_reduce(dense, "Div"))
        if case["strategy"] == "parameter_server" and case["sync"] == "sync":
            return self._update_together(weights, gradients)
        return self._update(weights, gradients)

    def _update(self, weights, gradients):
        params, updates = self.context.params, self.scope.updates
        optimizer, slots = optimizer_of(params, OPTIMIZERS)
        step = tf.Variable(tf.zeros([], tf.int64), name="steps", trainable=False).assign_add(1)
        for weight, gradient in zip(weights, gradients):
            zeros = tf.zeros(weight.shape)
            # Where the weight lies: on its parameter server.
            with tf.device(weight.device):
                held = [tf.Variable(zeros, trainable=False, name="slot") for _ in range(slots)]
                # A variable of this process that is still read would be copied before its update.
                first = [] if self.context.runtime.cluster else _readers(weight)
                with tf.control_dependencies(first):
                    updates.append(optimizer(params, step, weight, gradient, *held))
        return tf.group(step, *updates)

    def _update_together(self, weights, gradients):
        """Synchronous parameter servers, which collect the gradients of a step.

        The first trainer takes their means, updates, and lets the others go on.
        """
        trainers, pairs = self.context.world_size, zip(weights, gradients)
        given, means = zip(*[self._collected(weight, gradient) for weight, gradient in pairs])
        with tf.device("/job:pserver/task:0"):
            updated = tf.queue.FIFOQueue(trainers, [tf.int32], [[]], shared_name="updated")
        if self.context.rank:
            with tf.control_dependencies(given):
                return tf.group(updated.dequeue(), *self.scope.updates)
        with tf.control_dependencies([self._update(weights, means)]):
            others = tf.zeros([trainers - 1], tf.int32)
            return tf.group(updated.enqueue_many([others]), *given)

    def _collected(self, weight, gradient):
        """Two operations: hand a gradient to the weight's server; wait for all, take their mean."""
        count, always = self.context.world_size, 2**62  # no gradient is late: its sender waits
        name = weight.op.name + "/gradient"
        with tf.device(weight.device):
            if isinstance(gradient, tf.IndexedSlices):
                held = tf.compat.v1.SparseConditionalAccumulator(
                    tf.float32, weight.shape, shared_name=name
                )
                give = held.apply_indexed_slices_grad(gradient, always)
                return give, held.take_indexed_slices_grad(count)
            held = tf.compat.v1.ConditionalAccumulator(tf.float32, weight.shape, shared_name=name)
            return held.apply_grad(gradient, always), held.take_grad(count)

    def _all_reduce(self, tensors, final):
        """The sum or the mean ("Div") over all ranks, exchanged as one vector."""
        vector = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
        ranks = self.context.world_size
        self.instances += 1
        vector = collective_ops.all_reduce(vector, ranks, GROUP, self.instances, "Add", final)
        parts = tf.split(vector, [tensor.shape.num_elements() for tensor in tensors])
        return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors)]

    def _assign(self):
        """The operation that sets all weights: to this rank's values, in a group to rank 0's."""
        values = list(self.values.values())
        if self.context.grouped:
            mine = 1.0 if self.context.rank == 0 else 0.0
            values = self._all_reduce([mine * value for value in values], "Id")
        return tf.group(*[w.assign(value) for w, value in zip(self.named.values(), values)])

    def _initialise(self):
        """Sets weights of data.py; with parameter servers the first trainer does it for all."""
        context = self.context
        made = self.initial_weights(
            {name: channels_last.shape_of_data(w.shape.as_list()) for name, w in self.named.items()}
        )
        if context.rank == 0 or context.runtime.cluster is None or context.grouped:
            self.session.run(tf.compat.v1.global_variables_initializer())
            feed = {self.values[name]: channels_last.weight(made[name]) for name in made}
            self.session.run(self.assign, feed)
        context.runtime.barrier()

    def ranks_agree(self):
        """Whether the weights of all trainers are of the same age."""
        return self.context.case["sync"] == "sync"

    def serve(self):
        """Runs this parameter server until the agent ends it, once all trainers are done."""
        self.context.runtime.server.join()

    def step(self):
        """Forward, backward, exchange, update. Returns when the session is through."""
        batch = next(self.batches)
        loss, _ = self.run(*[batch[name] for name in self.names])
        self.kept.append(loss)

    def losses(self):
        """The losses of all steps so far."""
        return [float(loss) for loss in self.kept]

    def weights(self):
        """Name -> value of all trainable parameters."""
        values = self.session.run(self.named)
        return {name: channels_last.weight_of_data(value) for name, value in values.items()}

    def precision_proof(self):
        """Looks at what products keep of 1 + 2^-12, which coarser types round to 1."""
        types = {weight.dtype.base_dtype for weight in self.named.values()}
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            fine = tf.fill([256, 256], 1 + 2.0**-12)
            exact = session.run(tf.reduce_all(tf.equal(tf.matmul(fine, tf.eye(256)), fine)))
        if types != {tf.float32} or not exact:
            raise RuntimeError(
                "of {} products are {}".format(types, "exact" if exact else "rounded")
            )
        return expect_precision(self.context.precision, "fp32")
