"""Training in TensorFlow 1: a graph, alone, between ranks, or with parameter servers."""

import functools

import channels_last
import numpy
import tensorflow as tf
from apis.tensorflow.flops import flops_of
from apis.tensorflow.optimizers import OPTIMIZERS
from apis.tensorflow.scope import Scope
from base_trainer import Base, expect_precision, optimizer_of
from tensorflow.python.ops import collective_ops

GROUP = 1
"""Key of the group of all ranks in collectives."""

FIRST_SCALE, GROWTH_STEPS = 2.0**15, 2000
"""Loss scaling of fp16: doubled after GROWTH_STEPS good steps, halved by an overflow."""


class GraphScope(Scope):
    """A scope that collects the updates of running averages, which a step must run."""

    def __init__(self):
        super().__init__()
        self.updates = []

    def average(self, name, value):
        """Collect the update of a running average for inference."""
        self.updates.append(super().average(name, value))


def _readers(weight):
    """Return the operations that read the value of a variable."""
    reads = [op for op in weight.handle.consumers() if op.type == "ReadVariableOp"]
    return [reader for read in reads for reader in read.outputs[0].consumers()]


class Trainer(Base):
    """The graph of one trainer. A parameter server has no graph of its own."""

    instances = 0
    """Number of collectives in the graph; the number of each collective is its key."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        if not context.measured:
            return
        runtime = context.runtime
        self.held, self.updates = [], None
        self.batches = self.feed(self._placed_batch)
        inputs = self._inputs()
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
        self.fetched = [loss, train]
        self.run = self.session.make_callable(self.fetched, list(self.fed.values()))
        if runtime.gpu:
            with tf.device(self._device()):
                runtime.allocated = functools.partial(
                    self.session.run, tf.contrib.memory_stats.MaxBytesInUse()
                )

    def _placed_batch(self, batch):
        """Return the feed of a step: a batch, or the number of a batch stored on the GPU."""
        batch = channels_last.batch(batch)
        if not self.context.runtime.gpu or self.context.data_path is not None:
            return batch
        self.held.append(batch)
        return {"number": len(self.held) - 1}

    def _inputs(self):
        """Return name -> tensor of a batch; set `fed` to the placeholders that a step feeds."""
        example = channels_last.batch(self.example())
        if not self.held:
            self.fed = {
                name: tf.compat.v1.placeholder(value.dtype, value.shape)
                for name, value in example.items()
            }
            return self.fed
        self.fed = {"number": tf.compat.v1.placeholder(tf.int32, [])}
        self.stacks = {}
        with tf.device(self._device()):
            stacks = {}
            for name, value in example.items():
                # Fed, because a graph with such constants may be too large.
                shape = [len(self.held), *value.shape]
                self.stacks[name] = tf.compat.v1.placeholder(value.dtype, shape)
                stacks[name] = tf.Variable(
                    self.stacks[name],
                    trainable=False,
                    collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
                )
            return {name: tf.gather(stack, self.fed["number"]) for name, stack in stacks.items()}

    def _device(self):
        """Return TensorFlow's name of this process and its GPU; None if it needs no name."""
        context, own = self.context, ""
        if context.runtime.cluster is not None:
            own = "/job:trainer/task:{}".format(context.rank)
        return (own + "/device:GPU:0" if context.runtime.gpu else own) or None

    def _placement(self):
        """Return the device placement of variables and operations."""
        context, own = self.context, self._device()
        if context.runtime.cluster is None or context.grouped:
            return own
        return tf.compat.v1.train.replica_device_setter(
            cluster=context.runtime.cluster, ps_device="/job:pserver", worker_device=own
        )

    def _train(self, loss):
        """Return the operation of one training step."""
        case, weights = self.context.case, list(self.scope.weights.values())
        if self.context.precision == "fp16":
            return self._train_scaled(loss, weights)
        gradients = tf.gradients(loss, weights)
        if self.context.grouped:
            return self._update(weights, self._exchanged(gradients))
        if case["strategy"] == "parameter_server" and case["sync"] == "sync":
            return self._update_together(weights, gradients)
        return self._update(weights, gradients)

    def _train_scaled(self, loss, weights):
        """Return the operation of a step with loss scaling, so that float16 gradients are not zero.

        An overflow skips the update of that step on all ranks.
        """
        scale = tf.compat.v1.train.experimental.DynamicLossScale(
            initial_loss_scale=FIRST_SCALE, increment_period=GROWTH_STEPS
        )
        gradients = tf.gradients(loss * scale(), weights)
        dense = [gradient / scale() for gradient in self._exchanged(gradients)]
        rescale, finite = scale.update(dense)
        slots, count = self._slots(weights)
        self.updates = count
        update = tf.cond(
            finite,
            lambda: self._updated(weights, dense, slots, count.assign_add(1)),
            tf.no_op,
        )
        return tf.group(rescale, update, *self.scope.updates)

    def _exchanged(self, gradients):
        """Return the mean gradients over all ranks, as dense tensors."""
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return self._all_reduce(dense, "Div") if self.context.grouped else dense

    def _slots(self, weights):
        """Return the optimizer's slots of each weight, and the variable that counts steps."""
        _, number = optimizer_of(self.context.params, OPTIMIZERS)
        count, slots = tf.Variable(tf.zeros([], tf.int64), name="steps", trainable=False), []
        for weight in weights:
            zeros = tf.zeros(weight.shape)
            # On the weight's parameter server.
            with tf.device(weight.device):
                slots.append(
                    [tf.Variable(zeros, trainable=False, name="slot") for _ in range(number)]
                )
        return slots, count

    def _updated(self, weights, gradients, slots, step):
        """Return the operation that updates all weights."""
        params, updates = self.context.params, []
        optimizer, _ = optimizer_of(params, OPTIMIZERS)
        for weight, gradient, held in zip(weights, gradients, slots):
            with tf.device(weight.device):
                # A variable of this process that is still read would be copied before its update.
                # Whether gradients are finite is known when all of them have read it.
                known = self.context.runtime.cluster or self.context.precision == "fp16"
                first = [] if known else _readers(weight)
                with tf.control_dependencies(first):
                    updates.append(optimizer(params, step, weight, gradient, *held))
        return tf.group(step, *updates)

    def _update(self, weights, gradients):
        slots, count = self._slots(weights)
        updated = self._updated(weights, gradients, slots, count.assign_add(1))
        return tf.group(updated, *self.scope.updates)

    def _update_together(self, weights, gradients):
        """Return a step with synchronous parameter servers, which collect its gradients.

        The first trainer averages them, updates the weights, and releases the other trainers.
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
        """Return two operations: send a gradient to its server; wait for all and average them."""
        count, always = self.context.world_size, 2**62  # no gradient is late: its sender waits
        name = weight.op.name + "/gradient"
        with tf.device(weight.device):
            if isinstance(gradient, tf.IndexedSlices):
                # Its mean of a row is over the trainers whose batches have the row.
                held = tf.compat.v1.SparseConditionalAccumulator(
                    tf.float32, weight.shape, shared_name=name, reduction_type="SUM"
                )
                share = tf.IndexedSlices(gradient.values / count, gradient.indices)
                give = held.apply_indexed_slices_grad(share, always)
                return give, held.take_indexed_slices_grad(count)
            held = tf.compat.v1.ConditionalAccumulator(tf.float32, weight.shape, shared_name=name)
            return held.apply_grad(gradient, always), held.take_grad(count)

    def _all_reduce(self, tensors, final):
        """All-reduce tensors as one vector, to the sum ("Id") or the mean ("Div") over ranks."""
        vector = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
        ranks = self.context.world_size
        self.instances += 1
        library = "nccl" if self.context.runtime.gpu else "auto"
        vector = collective_ops.all_reduce(
            vector, ranks, GROUP, self.instances, "Add", final, communication_hint=library
        )
        parts = tf.split(vector, [tensor.shape.num_elements() for tensor in tensors])
        return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors)]

    def _assign(self):
        """Return the operation that sets all weights; in a group, all ranks get rank 0's values."""
        values = list(self.values.values())
        if self.context.grouped:
            mine = 1.0 if self.context.rank == 0 else 0.0
            values = self._all_reduce([mine * value for value in values], "Id")
        return tf.group(*[w.assign(value) for w, value in zip(self.named.values(), values)])

    def _initialise(self):
        """Set the weights of data.py; with parameter servers, only the first trainer does so."""
        context = self.context
        made = self.initial_weights(
            {name: channels_last.shape_of_data(w.shape.as_list()) for name, w in self.named.items()}
        )
        if context.rank == 0 or context.runtime.cluster is None or context.grouped:
            self.session.run(tf.compat.v1.global_variables_initializer())
            feed = {self.values[name]: channels_last.weight(made[name]) for name in made}
            self.session.run(self.assign, feed)
        if self.held:
            stacked = {
                self.stacks[name]: numpy.stack([batch[name] for batch in self.held])
                for name in self.stacks
            }
            self.session.run(tf.compat.v1.local_variables_initializer(), stacked)
            del self.held
        context.runtime.barrier()

    def ranks_agree(self):
        """Return whether the weights of all trainers have the same age."""
        return self.context.case["sync"] == "sync"

    def serve(self):
        """Run this parameter server until the agent ends it, after all trainers are done."""
        self.context.runtime.server.join()

    def step(self):
        """Run forward, backward, exchange and update; return when the session is done."""
        batch = next(self.batches)
        loss, _ = self.run(*[batch[name] for name in self.fed])
        self.kept.append(loss)

    def updates_made(self):
        """Return the optimizer's steps, which do not include steps with an overflow."""
        return None if self.updates is None else int(self.session.run(self.updates))

    def count_step(self):
        """Count the FLOPs of the graph, which every step runs."""
        self.flops_per_step = flops_of(self.session.graph)

    def weights(self):
        """Return name -> value of all trainable parameters."""
        values = self.session.run(self.named)
        return {name: channels_last.weight_of_data(value) for name, value in values.items()}

    def precision_proof(self):
        """Return the precision that a product with 1 + 2^-12 shows: coarser types round it to 1.

        Its graph is rewritten like that of a step. Values are fed, so that no constant is folded.
        """
        types = {weight.dtype.base_dtype for weight in self.named.values()}
        fine = numpy.full([256, 256], 1 + 2.0**-12, "float32")
        config = self.context.runtime.config
        with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
            given = [tf.compat.v1.placeholder(tf.float32, fine.shape) for _ in range(2)]
            kept = tf.reduce_all(tf.equal(tf.matmul(*given), fine))
            exact = session.run(kept, {given[0]: fine, given[1]: numpy.eye(256)})
        if types != {tf.float32}:
            raise RuntimeError("weights are {}, not float32".format(types))
        rewritten = config.graph_options.rewrite_options.auto_mixed_precision
        found = "fp32" if exact else ("fp16" if rewritten else "tf32")
        return expect_precision(self.context.precision, found)
