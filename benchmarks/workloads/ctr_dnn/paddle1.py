"""CTR-DNN in Fluid: one training step on synthetic clicks, alone or with parameter servers."""

import numpy
from paddle import fluid

layers = fluid.layers


def uniform(limit):
    """Initial weights between -limit and limit."""
    return fluid.initializer.Uniform(-limit, limit)


def ctr_dnn(params):
    """The program, from inputs to loss: (names of the inputs, loss)."""
    dense = fluid.data("dense", [None, params["dense_features"]], "float32")
    slots = [
        fluid.data("slot{}".format(i), [None, 1], "int64") for i in range(params["sparse_slots"])
    ]
    label = fluid.data("label", [None, 1], "int64")

    size = params["embedding_size"]
    table = fluid.ParamAttr(name="embedding", initializer=uniform(0.01))
    shape = [params["vocabulary"], size]
    # is_sparse: only the rows that a batch has touched travel to the servers.
    rows = [fluid.embedding(slot, shape, is_sparse=True, param_attr=table) for slot in slots]
    x = layers.concat([layers.reshape(row, [-1, size]) for row in rows] + [dense], axis=1)
    for width in params["hidden"]:
        x = layers.fc(x, width, act="relu")
    click = layers.fc(x, 2, act="softmax")
    loss = layers.mean(layers.cross_entropy(click, label))
    return [variable.name for variable in [dense, *slots, label]], loss


def synthetic_batch(random, params, batch_size):
    """One batch as arrays in the order of the inputs.

    Ids follow Zipf's law within their slot's part of the table. A sample is clicked when most of
    its ids are odd: something that can be learnt.
    """
    slots, span = params["sparse_slots"], params["vocabulary"] // params["sparse_slots"]
    ids = random.zipf(1.3, (slots, batch_size, 1)) % span
    dense = random.rand(batch_size, params["dense_features"]).astype("float32")
    label = ((ids % 2).sum(axis=0) * 2 > slots).astype("int64")
    offsets = numpy.arange(slots).reshape(slots, 1, 1) * span
    return [dense, *(ids + offsets).astype("int64"), label]


class Task:
    """The program of one trainer or parameter server."""

    def __init__(self, context):
        params, self.runtime = context.params, context.runtime
        self.samples_per_step = context.batch_size
        for program in (fluid.default_main_program(), fluid.default_startup_program()):
            program.random_seed = context.seed
        names, self.loss = ctr_dnn(params)
        self.parameters = sum(
            int(numpy.prod(p.shape)) for p in fluid.default_main_program().all_parameters()
        )
        if self.parameters != params["parameters"]:
            raise RuntimeError(
                "{} parameters, not {}".format(self.parameters, params["parameters"])
            )
        self.runtime.minimize(fluid.optimizer.SGD(params["learning_rate"]), self.loss)
        if context.role == "pserver":
            return
        self.executor, self.program = self.runtime.start()
        random = numpy.random.RandomState(context.seed * 100003 + context.rank)
        self.feeds = [
            dict(zip(names, synthetic_batch(random, params, context.batch_size)))
            for _ in range(params["batches"])
        ]
        self.kept = []

    def serve(self):
        """Runs a parameter server until it is ended."""
        self.runtime.serve()

    def step(self):
        """Forward, backward, exchange with the servers. Returns when the executor is through."""
        feed = self.feeds[len(self.kept) % len(self.feeds)]
        (loss,) = self.executor.run(self.program, feed=feed, fetch_list=[self.loss.name])
        self.kept.append(loss)

    def losses(self):
        """The losses of all steps so far."""
        return [float(numpy.mean(loss)) for loss in self.kept]


def build(context):
    """The task of this process."""
    return Task(context)
