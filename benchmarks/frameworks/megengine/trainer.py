"""Training in MegEngine: eager, or traced into a graph."""

import megengine
from base_trainer import Base, expect_precision, optimizer_of
from megengine import functional, module, optimizer
from megengine.autodiff import GradManager
from megengine.jit import trace


def sgd(parameters, params):
    """Stochastic gradient descent without momentum."""
    return optimizer.SGD(
        parameters, lr=params["learning_rate"], weight_decay=params.get("weight_decay", 0.0)
    )


def momentum(parameters, params):
    """Stochastic gradient descent with momentum."""
    return optimizer.SGD(
        parameters,
        lr=params["learning_rate"],
        momentum=params["momentum"],
        weight_decay=params.get("weight_decay", 0.0),
    )


OPTIMIZERS = {"sgd": sgd, "momentum": momentum}


class Trainer(Base):
    """One rank."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        params = context.params
        self.model = network.model(params)
        self._load()
        self.gradients = GradManager().attach(self.model.parameters())
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

    def _parameters(self):
        """(name, parameter, whether it is a matrix: (out, in), where data.py has (in, out))."""
        matrices = {
            id(layer.weight) for layer in self.model.modules() if isinstance(layer, module.Linear)
        }
        for name, weight in self.model.named_parameters():
            yield name, weight, id(weight) in matrices

    def _train(self, *values):
        with self.gradients:
            loss = self.network.loss(self.model, dict(zip(self.names, values)))
            self.gradients.backward(loss)
        self.optimizer.step().clear_grad()
        return loss

    def step(self):
        """Forward, backward, update. Queues its work; the loss stays a tensor."""
        self.kept.append(self.train(*next(self.batches)))

    def losses(self):
        """The losses of all steps so far."""
        return [float(loss.numpy()) for loss in self.kept]

    def weights(self):
        """Name -> value of all trainable parameters."""
        return {
            name: _as_in_data(weight.numpy(), matrix) for name, weight, matrix in self._parameters()
        }

    def modes_used(self):
        """Whether the step was traced."""
        traced = isinstance(self.train, trace) and self.train._trace is not None
        return {"execution": "graph" if traced else "default"}

    def precision_proof(self):
        """Looks at what a product keeps of 1 + 2^-12: bfloat16 rounds it to 1."""
        fine = functional.full((256, 256), 1 + 2.0**-12)
        exact = bool((functional.matmul(fine, functional.eye(256)) == fine).numpy().all())
        return expect_precision(self.context.precision, "fp32" if exact else "bf16")


def _as_in_data(value, matrix):
    if matrix:
        return value.T
    # A batch norm's scale and shift are (1, channels, 1, 1).
    return value.reshape(-1) if value.shape[0] == 1 else value
