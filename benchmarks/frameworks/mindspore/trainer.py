"""Training in MindSpore: PyNative (eager), or compiled to a graph; alone or between ranks."""

import mindspore
from base_trainer import Base, expect_precision, optimizer_of
from frameworks.mindspore.optimizers import OPTIMIZERS
from mindspore import communication, nn, ops

NAMES = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}
"""Names of layers' parameters in data.py."""


class Forward(nn.Cell):
    """The loss of a batch as a cell."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def construct(self, batch):
        """The mean loss."""
        return self.loss(self.model, batch)


class Step(nn.Cell):
    """Forward, backward, exchange and update as a cell, which may be compiled to one graph."""

    def __init__(self, forward, optimizer, reduce):
        super().__init__()
        self.backward = mindspore.value_and_grad(forward, None, optimizer.parameters)
        self.optimizer, self.reduce = optimizer, reduce

    def construct(self, batch):
        """Update the weights; return the loss of the batch before the update."""
        loss, gradients = self.backward(batch)
        self.optimizer(self.reduce(gradients))
        return loss


class Trainer(Base):
    """One rank; the scheduler has no network."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        if not context.measured:
            return
        params = context.params
        self.model = network.model(params).set_train()
        self._load()
        parameters = self.model.trainable_params()
        self.optimizer = optimizer_of(params, OPTIMIZERS)(parameters, params)
        # Otherwise a graph would treat a batch as constants and be compiled for each batch.
        self.batches = self.feed(
            lambda batch: mindspore.mutable({n: mindspore.Tensor(x) for n, x in batch.items()})
        )
        reduce = nn.Identity()
        if context.grouped:
            reduce = nn.DistributedGradReducer(
                self.optimizer.parameters, mean=True, degree=context.world_size
            )
        self.cell = Step(Forward(self.model, network.loss), self.optimizer, reduce).set_train()
        graph = context.case["execution"] == "graph"
        self.train = mindspore.jit(self.cell.construct) if graph else self.cell

    def _load(self):
        named = list(self._parameters())
        made = self.initial_weights(
            {name: weight.shape[::-1] if turned else weight.shape for name, weight, turned in named}
        )
        for name, weight, turned in named:
            value = mindspore.Tensor(made[name].T.copy() if turned else made[name])
            if self.context.grouped:
                (value,) = ops.Broadcast(0)((value,))
            weight.set_data(value)

    def _parameters(self):
        """Yield the name in data.py, the parameter, and whether data.py stores it transposed."""
        matrices = {
            id(cell.weight)
            for _, cell in self.model.cells_and_names()
            if isinstance(cell, nn.Dense)
        }
        for path, weight in self.model.parameters_and_names():
            if weight.requires_grad:
                owner, dot, name = path.rpartition(".")
                yield owner + dot + NAMES.get(name, name), weight, id(weight) in matrices

    def serve(self):
        """Run the scheduler until all ranks have left; a single rank does not need it."""
        if self.context.world_size > 1:
            communication.init()

    def step(self):
        """Queue forward, backward and update; the loss stays a tensor."""
        loss = self.train(next(self.batches))
        # Its memory follows that of the forward pass, which malloc could not use again.
        self.kept.append(loss.copy())

    def weights(self):
        """Return name -> value of all trainable parameters."""
        return {
            name: weight.asnumpy().T if turned else weight.asnumpy()
            for name, weight, turned in self._parameters()
        }

    def modes_used(self):
        """Return whether the step was compiled: its cell then has graphs."""
        return {"execution": "graph" if self.cell._phase_cache else "default"}

    def precision_proof(self):
        """Return the precision that a product with 1 + 2^-12 shows: bfloat16 rounds it to 1."""
        fine = ops.full((256, 256), 1 + 2.0**-12, dtype=mindspore.float32)
        product = ops.matmul(fine, ops.eye(256, 256, mindspore.float32))
        exact = bool((product == fine).all().asnumpy())
        return expect_precision(self.context.precision, "fp32" if exact else "bf16")
