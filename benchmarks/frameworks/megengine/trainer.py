"""Training in MegEngine: eager, or traced into a graph; alone or between ranks."""

import megengine
from base_trainer import Base, expect_precision, optimizer_of
from megengine import amp, distributed, functional, module, optimizer
from megengine.autodiff import GradManager
from megengine.jit import trace
from torch_optimizers import optimizers_of

OPTIMIZERS = {name: optimizers_of(optimizer)[name] for name in ("sgd", "momentum")}

SCALE = 65536.0
"""Initial loss scale of float16; it is halved if a gradient is not finite."""


class Trainer(Base):
    """One rank."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        params = context.params
        self.model = network.model(params)
        self._load()
        exchange = distributed.make_allreduce_cb("mean") if context.grouped else None
        self.gradients = GradManager().attach(self.model.parameters(), exchange)
        self.scaler = amp.GradScaler(SCALE) if context.precision == "fp16" else None
        self.optimizer = optimizer_of(params, OPTIMIZERS)(self.model.parameters(), params)
        self.names = list(self.example())
        self.batches = self.feed(
            lambda batch: [megengine.tensor(batch[name]) for name in self.names]
        )
        self.train = self._train
        if context.case["execution"] == "graph":
            self.train = trace(self._train, symbolic=True)

    def _load(self):
        made = self.initial_weights({name: value.shape for name, value in self.weights().items()})
        for name, weight, matrix in self._parameters():
            value = made[name].T if matrix else made[name].reshape(weight.shape)
            weight._reset(megengine.tensor(value.copy()))
        if self.context.grouped:
            distributed.bcast_list_(self.model.tensors())

    def _parameters(self):
        """Yield name, parameter, and whether it is a matrix, which data.py stores transposed."""
        matrices = {
            id(layer.weight) for layer in self.model.modules() if isinstance(layer, module.Linear)
        }
        for name, weight in self.model.named_parameters():
            yield name, weight, id(weight) in matrices

    def _train(self, *values):
        with self.autocast(), self.gradients:
            loss = self.network.loss(self.model, dict(zip(self.names, values)))
            if self.scaler is None:
                self.gradients.backward(loss)
            else:
                self.scaler.backward(self.gradients, loss)
        self.optimizer.step().clear_grad()
        return loss

    def autocast(self):
        """Return a context with float16 products if the case asks for it; sums stay in float32."""
        return amp.autocast(enabled=self.scaler is not None)

    def step(self):
        """Queue forward, backward and update; the loss stays a tensor."""
        self.kept.append(self.train(*next(self.batches)))

    def weights(self):
        """Name -> value of all trainable parameters."""
        return {
            name: _as_in_data(weight.numpy(), matrix) for name, weight, matrix in self._parameters()
        }

    def modes_used(self):
        """Return whether the step was traced."""
        traced = isinstance(self.train, trace) and self.train._trace is not None
        return {"execution": "graph" if traced else "default"}

    def precision_proof(self):
        """Return the precision that a product with 1 + 2^-12 shows: only float32 keeps it.

        float16 keeps 1 + 2^-9. TF32 keeps it too, but is off (launch.py).
        """
        if self._keeps(2.0**-12):
            return expect_precision(self.context.precision, "fp32")
        coarse = "tf32" if self.scaler is None else "fp16"
        return expect_precision(self.context.precision, coarse if self._keeps(2.0**-9) else "bf16")

    def _keeps(self, part):
        fine = functional.full((256, 256), 1 + part)
        with self.autocast():
            product = functional.matmul(fine, functional.eye(256))
        return bool((product.astype("float32") == fine).numpy().all())


def _as_in_data(value, matrix):
    if matrix:
        return value.T
    # A batch norm's scale and shift are (1, channels, 1, 1).
    return value.reshape(-1) if value.shape[0] == 1 else value
