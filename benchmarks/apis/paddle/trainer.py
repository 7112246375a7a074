"""Training in PaddlePaddle: eager, or by a graph of the loss; mixed precision on GPUs."""

import contextlib

import channels_last
import paddle
from base_trainer import Base, expect_precision, optimizer_of

from apis.paddle import torch_names
from apis.paddle.flops import Flops


def trainable(model):
    """Return name -> parameter, without batch-norm statistics, which PaddlePaddle includes."""
    return {name: weight for name, weight in model.named_parameters() if not weight.stop_gradient}


def sgd(params, model, **named):
    """Stochastic gradient descent without momentum."""
    return paddle.optimizer.SGD(
        learning_rate=params["learning_rate"], weight_decay=params.get("weight_decay"), **named
    )


def momentum(params, model, **named):
    """Stochastic gradient descent with momentum."""
    return paddle.optimizer.Momentum(
        learning_rate=params["learning_rate"],
        momentum=params["momentum"],
        weight_decay=params.get("weight_decay"),
        **named,
    )


def adam(params, model, **named):
    """Adam (Kingma and Ba 2014, arXiv:1412.6980)."""
    return paddle.optimizer.Adam(
        learning_rate=params["learning_rate"],
        beta1=params["beta1"],
        beta2=params["beta2"],
        epsilon=params["epsilon"],
        **named,
    )


def adamw(params, model, **named):
    """Adam, with decoupled decay of matrices (Loshchilov and Hutter 2017, arXiv:1711.05101)."""
    matrices = {weight.name for weight in trainable(model).values() if len(weight.shape) > 1}
    # Parts of a parameter (`group_sharded_parallel`) are named after it.
    matrices.update(["slice@" + name for name in matrices])
    return paddle.optimizer.AdamW(
        learning_rate=params["learning_rate"],
        beta1=params["beta1"],
        beta2=params["beta2"],
        epsilon=params["epsilon"],
        weight_decay=params["weight_decay"],
        apply_decay_param_fun=matrices.__contains__,
        **named,
    )


OPTIMIZERS = {"sgd": sgd, "momentum": momentum, "adam": adam, "adamw": adamw}
"""Name -> maker from the workload's parameters, the network and arguments of PaddlePaddle."""

AUTOCAST = {"bf16": "bfloat16", "fp16": "float16"}

BUFFERS = {"ddp_buffer_1mb": 1, "ddp_buffer_100mb": 100}
"""`tuning` -> megabytes of gradients that DataParallel exchanges at once, instead of 25."""

MULTI_TENSOR = "optimizer_multi_tensor"
"""The `tuning` whose update is one operator for all parameters (of Momentum and Adam)."""

AMP_O2 = "amp_o2"
"""The `tuning` of mixed precision in which parameters have 16 bits too, except those of norms."""


class Loss(paddle.nn.Layer):
    """The loss of a batch as a layer, which `to_static` compiles to a graph.

    PaddlePaddle 2 cannot compile a nested function: it does not find the names around it.
    """

    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch):
        """The loss."""
        return self.loss(self.model, batch)


class EagerTrainer(Base):
    """One rank."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        params = context.params
        self.last = context.case["layout"] == "channels_last"
        if self.last:
            torch_names.put_channels_last()
        self.model = network.model(params)
        named = trainable(self.model)
        made = self.initial_weights({name: weight.shape for name, weight in named.items()})
        for name, weight in named.items():
            weight.set_value(made[name])
        make = optimizer_of(params, OPTIMIZERS)
        self.level = "O2" if context.case.get("tuning") == AMP_O2 else "O1"
        self.graph = None
        if context.case["execution"] == "graph":
            # full_graph: otherwise PaddlePaddle may run the step in pieces without a message.
            self.graph = paddle.jit.to_static(Loss(self.model, network.loss), full_graph=True)
        self.forward = self.optimizer = None
        switches = {}
        if context.case.get("tuning") == MULTI_TENSOR:
            switches["use_multi_tensor"] = True
        if self.level == "O2":
            paddle.amp.decorate(self.model, level="O2", dtype=AUTOCAST[context.precision])
            switches["multi_precision"] = True  # update float32 weights, then copy them
        self.distribute(
            lambda: make(params, self.model, parameters=self.model.parameters(), **switches)
        )
        self.scaler = paddle.amp.GradScaler(enable=context.precision == "fp16")
        self.updates = 0
        self.batches = self.feed(self.placed)

    def distribute(self, optimizer):
        """Set `forward` and `optimizer`; the argument is a function that makes the optimizer."""
        size = BUFFERS.get(self.context.case.get("tuning"))
        sizes = {} if size is None else {"comm_buffer_size": size, "last_comm_buffer_size": size}
        self.forward = self.graph or self.model
        if self.context.grouped:
            self.forward = paddle.DataParallel(self.forward, **sizes)
        self.optimizer = optimizer()

    def placed(self, batch):
        """Return the tensors of a batch."""
        if self.last:
            batch = channels_last.batch(batch)
        return {name: paddle.to_tensor(value) for name, value in batch.items()}

    def exchange(self):
        """Exchange gradients that the backward does not exchange; here there are none."""

    def step(self):
        """Run forward, backward and update. On a GPU the loss stays a tensor."""
        loss = self.backward(next(self.batches))
        self.exchange()
        self.scaler.step(self.optimizer)
        # Values that `step` has read itself.
        self.updates += not self.scaler._found_inf if self.scaler.is_enable() else 1
        self.scaler.update()
        self.optimizer.clear_grad()
        # On a CPU each tensor has its own memory pages, even a small one.
        self.kept.append(loss if self.context.runtime.gpu else loss.item())

    def backward(self, batch):
        """Run forward and backward of a batch; return its loss, which stays a tensor."""
        return self.part_backward(batch, 1)

    def part_backward(self, batch, parts):
        """Run one micro-batch of `parts`; return its part of the loss."""
        loss = self.loss(batch)
        if parts > 1:
            loss = loss / parts
        self.scaler.scale(loss).backward()
        return loss.detach()

    def loss(self, batch):
        """Return the loss of a batch, in the precision of the case."""
        with self.autocast():
            return self.forward(batch) if self.graph else self.network.loss(self.forward, batch)

    def updates_made(self):
        """Return the number of steps whose gradients did not overflow."""
        return self.updates if self.scaler.is_enable() else None

    def count_step(self):
        """Run one more step and count its FLOPs, if Python sees the products of this rank.

        It does not see those of a graph, the split of matrices, and which layers are recomputed.
        """
        case = self.context.case
        if self.graph or self.context.tensor > 1 or case.get("recompute", "none") != "none":
            return
        with Flops() as flops:
            self.step()
        self.flops_per_step = flops.total

    def _forward(self, function):
        with paddle.no_grad(), self.autocast():
            return function(self.model, next(self.batches)).tolist()

    def autocast(self):
        """Return a context of mixed precision by PaddlePaddle's lists, if the case asks for it.

        Except with `amp_o2`, parameters stay float32, and so do the reductions in those lists.
        """
        dtype = AUTOCAST.get(self.context.precision)
        if dtype is None:
            return contextlib.nullcontext()
        return paddle.amp.auto_cast(level=self.level, dtype=dtype)

    def modes_used(self):
        """Return the tuning, execution and layout that were really used."""
        programs = self.graph.forward.program_cache if self.graph else ()
        return {
            "tuning": self._tuned(),
            "execution": "graph" if len(programs) else "default",
            "layout": "channels_last" if self.last and self._channels_are_last() else "default",
        }

    def _tuned(self):
        """Return the tuning in use, by weight types, merged updates and the reducer's buffer."""
        if any(weight.dtype != paddle.float32 for weight in trainable(self.model).values()):
            return AMP_O2
        size = getattr(self.forward, "comm_buffer_size", None)
        tuned = {of * 2**20: name for name, of in BUFFERS.items()}
        # Filled by the first step that passes them to the operator.
        held = getattr(self.optimizer, "_param_dict", {}).values()
        merged = sum(len(group) for groups in held for group in groups)
        whole = merged == len(trainable(self.model))
        return MULTI_TENSOR if whole else tuned.get(size, "default")

    def _channels_are_last(self):
        seen = []

        def look(layer, given, made):
            seen.append(layer._data_format == "NHWC" and made.shape[-1] == layer.weight.shape[0])

        layers = [each for each in self.model.sublayers() if isinstance(each, paddle.nn.Conv2D)]
        hooks = [each.register_forward_post_hook(look) for each in layers]
        with paddle.no_grad(), self.autocast():
            self.network.loss(self.model, next(self.batches))
        for hook in hooks:
            hook.remove()
        return len(seen) == len(layers) > 0 and all(seen)

    def weights(self):
        """Return name -> value of all trainable parameters."""
        return {name: self.whole(x).numpy() for name, x in trainable(self.model).items()}

    def whole(self, weight):
        """Return a parameter's full value in float32."""
        if weight.dtype == paddle.float32:
            return weight
        # The values that the optimizer updates, from its first step on.
        return self.optimizer._master_weights.get(weight.name, weight.astype("float32"))

    def precision_proof(self):
        """Return the precision that a product with 1 + 2^-12 shows: TF32 rounds it to 1.

        Mixed precision is recognised by the type of the product.
        """
        types = {str(weight.dtype) for weight in self.model.parameters()}
        if types != {"paddle.float32"} and self.level == "O1":
            raise RuntimeError("parameters are {}, not float32".format(", ".join(sorted(types))))
        fine = paddle.full([256, 256], 1 + 2.0**-12)
        with self.autocast():
            product = paddle.matmul(fine, paddle.eye(256))
        for name, dtype in AUTOCAST.items():
            if product.dtype == getattr(paddle, dtype):
                return expect_precision(self.context.precision, name)
        exact = bool((product == fine).all())
        return expect_precision(self.context.precision, "fp32" if exact else "tf32")
