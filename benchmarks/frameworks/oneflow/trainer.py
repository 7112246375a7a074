"""Training in OneFlow: eager with DistributedDataParallel, or a graph over global tensors."""

import contextlib

import channels_last
import numpy
import oneflow
from base_trainer import Base, expect_precision, optimizer_of
from frameworks.oneflow import torch_api
from oneflow import nn
from torch_optimizers import optimizers_of

OPTIMIZERS = optimizers_of(oneflow.optim)

TYPES = {"bf16": oneflow.bfloat16, "fp16": oneflow.float16}

SCALE = 128.0
"""Loss scale of eager fp16, without which gradients are zero: OneFlow 0.9 scales only graphs."""


FUSIONS = ("fuse_model_update_ops", "fuse_add_to_output")
"""Graph passes: one fuses the decay into the update, the other a sum into the operator before."""


class Step(nn.Graph):
    """One step as a graph: forward, backward and update; with a `dtype`, in mixed precision."""

    def __init__(self, model, loss, optimizer, dtype=None, tuning="default"):
        super().__init__()
        self.model, self.loss = model, loss
        self.add_optimizer(optimizer)
        if tuning == "zero":
            self.config.enable_zero(True, stage=2)
        for name in FUSIONS:
            getattr(self.config, "allow_" + name)(name == tuning)
        if dtype is not None:
            self.config.enable_amp(True, dtype=dtype)
        if dtype == oneflow.float16:
            self.set_grad_scaler(oneflow.amp.GradScaler())

    def build(self, batch):
        """Run forward and backward of a batch; return its loss."""
        loss = self.loss(self.model, batch)
        loss.backward()
        return loss


class Product(nn.Graph):
    """A matrix product as a graph, in the precision of the step."""

    def __init__(self, dtype):
        super().__init__()
        if dtype is not None:
            self.config.enable_amp(True, dtype=dtype)

    def build(self, left, right):
        """Return the product."""
        return oneflow.matmul(left, right)


class Trainer(Base):
    """One rank."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        params, self.device = context.params, context.runtime.device
        self.dtype = TYPES.get(context.precision)
        self.scale = SCALE if context.precision == "fp16" else None
        self.last = context.case["layout"] == "channels_last"
        if self.last:
            torch_api.put_channels_last(network)
        self.model = network.model(params)
        self._load()
        self.model.to(self.device)
        self.graphed = context.case["execution"] == "graph"
        self.split = None
        if context.grouped and self.graphed:
            placement = oneflow.placement.all(self.device.type)
            self.model.to_global(placement, oneflow.sbp.broadcast)
            self.split = {"placement": placement, "sbp": oneflow.sbp.split(0)}
        elif context.grouped:
            nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = optimizer_of(params, OPTIMIZERS)(self.model.parameters(), params)
        if self.graphed:
            tuning = context.case.get("tuning", "default")
            self.graph = Step(self.model, network.loss, self.optimizer, self.dtype, tuning)
        self.batches = self.feed(self._tensors)

    def _tensors(self, batch):
        if self.last:
            batch = channels_last.batch(batch)
        return {name: self._tensor(value) for name, value in batch.items()}

    def _tensor(self, value):
        tensor = oneflow.tensor(value, device=self.device)
        return tensor.to_global(**self.split) if self.split else tensor

    def _load(self):
        named = dict(self.model.named_parameters())
        matrices = {id(m.weight) for m in self.model.modules() if isinstance(m, nn.Linear)}
        # OneFlow's Linear holds (out, in), data.py (in, out).
        self.turned = {name for name, weight in named.items() if id(weight) in matrices}
        shapes = {
            name: self._of_data(name, numpy.empty(tuple(weight.shape), bool)).shape
            for name, weight in named.items()
        }
        made = self.initial_weights(shapes)
        with oneflow.no_grad():
            for name, weight in named.items():
                value = made[name].T if name in self.turned else made[name]
                if self.last and value.ndim == 4:
                    value = value.transpose(0, 2, 3, 1)
                weight.copy_(oneflow.tensor(value.copy()))

    def _of_data(self, name, value):
        """Return a weight in data.py's layout; channels-last filters are (out, h, w, in) here."""
        if name in self.turned:
            return value.T
        return value.transpose(0, 3, 1, 2) if self.last and value.ndim == 4 else value

    def step(self):
        """Queue forward, backward and update; the loss stays on the device."""
        batch = next(self.batches)
        if self.graphed:
            loss = self.graph(batch)
        else:
            with self.autocast():
                loss = self.network.loss(self.model, batch)
            self._backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.kept.append(loss.detach())

    def _backward(self, loss):
        if self.scale is None:
            loss.backward()
            return
        (loss * self.scale).backward()
        for weight in self.model.parameters():
            if weight.grad is not None:
                weight.grad.mul_(1.0 / self.scale)

    def autocast(self):
        """Return a context of mixed precision for eager steps, if the case asks for it."""
        if self.dtype is None:
            return contextlib.nullcontext()
        return oneflow.autocast("cuda", dtype=self.dtype)

    def losses(self):
        """Return the losses of all steps so far, for this rank's batches."""
        # A global loss is the sum of the ranks' means, each divided by the number of ranks.
        parts = self.context.world_size if self.split else 1
        return [float(self._own(loss)) * parts for loss in self.kept]

    def weights(self):
        """Name -> value of all trainable parameters."""
        named = self.model.named_parameters()
        return {name: self._of_data(name, self._own(self._whole(w))) for name, w in named}

    def _whole(self, weight):
        """Return a weight, gathered from all ranks if `zero` shards it."""
        return weight.to_global(sbp=oneflow.sbp.broadcast) if self.split else weight

    @staticmethod
    def _own(tensor):
        return (tensor.to_local() if tensor.is_global else tensor).detach().cpu().numpy()

    def modes_used(self):
        """Return whether OneFlow compiled the step as a graph, what it fused, and the layout."""
        compiled = self.graphed and self.graph._is_compiled
        found = {"execution": "graph" if compiled else "default"}
        operators = ()
        if compiled:
            operators = [op.user_conf for op in self.graph._full_graph_proto.net.op]
        last = self.last and self._channels_are_last(operators)
        found["layout"] = "channels_last" if last else "default"
        if compiled and self.context.case.get("tuning", "default") != "default":
            used = {
                "zero": self.is_split(),
                "fuse_model_update_ops": any(_decays(each) for each in operators),
                "fuse_add_to_output": any("_add_to_output" in each.input for each in operators),
            }
            found["tuning"] = next((name for name in used if used[name]), "default")
        return found

    def is_split(self):
        """Return whether the graph shards weights or optimizer states (ZeRO)."""
        operators = self.graph._full_graph_proto.net.op
        kept = [each.variable_conf for each in operators if each.HasField("variable_conf")]
        return any("S(0)" in each.nd_sbp for each in kept)

    def _channels_are_last(self, operators):
        """Return whether all convolutions are channels last, by graph operators or a forward."""
        if operators:
            layouts = [
                each.attr["data_format"].at_string
                for each in operators
                if each.op_type_name == "conv2d"
            ]
            return len(layouts) > 0 and set(layouts) == {"channels_last"}
        seen = []

        def look(layer, given, made):
            seen.append(layer.weight.shape[-1] * layer.groups == given[0].shape[-1])
            seen.append(made.shape[-1] == layer.weight.shape[0])

        layers = [each for each in self.model.modules() if isinstance(each, nn.Conv2d)]
        for each in layers:
            each.register_forward_hook(look)  # it stays: OneFlow 0.9 cannot remove a hook
        with oneflow.no_grad():
            self.network.loss(self.model, next(self.batches))
        return len(seen) == 2 * len(layers) > 0 and all(seen)

    def precision_proof(self):
        """Return the precision that a product with 1 + 2^-12 shows: only float32 keeps it.

        float16 and TF32 keep 1 + 2^-9. Without a cast, coarse means TF32, which launch.py disables.
        """
        if self._keeps(2.0**-12):
            return expect_precision(self.context.precision, "fp32")
        coarse = "tf32" if self.dtype is None else "fp16"
        return expect_precision(self.context.precision, coarse if self._keeps(2.0**-9) else "bf16")

    def _keeps(self, part):
        fine = oneflow.full((256, 256), 1 + part, device=self.device)
        unit = oneflow.eye(256, device=self.device)
        if self.split:
            # Ranks compile a graph together. With local tensors they would wait without end.
            whole = self.split["placement"], oneflow.sbp.broadcast
            fine, unit = fine.to_global(*whole), unit.to_global(*whole)
        if self.graphed:
            product = Product(self.dtype)(fine, unit)
        else:
            with self.autocast():
                product = oneflow.matmul(fine, unit)
        return bool((self._own(product.to(oneflow.float32)) == self._own(fine)).all())


def _decays(operator):
    """Return whether an operator updates a weight and applies its weight decay itself."""
    return operator.op_type_name.endswith("_update") and operator.attr["l2"].at_float > 0
