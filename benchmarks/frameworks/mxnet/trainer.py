"""Training in MXNet's Gluon: imperative, or hybridised; alone or with ps-lite's servers."""

import json

import channels_last
import mxnet
import numpy
from base_trainer import Base, expect_precision, optimizer_of
from frameworks.mxnet.optimizers import OPTIMIZERS
from mxnet import autograd, gluon, kvstore
from mxnet.contrib import amp
from mxnet.gluon import nn

NAMES = {"gamma": "weight", "beta": "bias"}
"""Names of a normalisation's parameters in data.py."""


class Trainer(Base):
    """One worker, or a scheduler or server, which has no network."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        if not context.measured:
            return
        params, self.device = context.params, context.runtime.device
        self.half = context.precision == "fp16"
        if self.half:
            # From here on, new operators compute products in float16, by MXNet's lists.
            amp.init(target_dtype="float16")
        self.last = context.case["layout"] == "channels_last"
        if self.last:
            network.LAYOUT = "NHWC"
        self.model = network.model(params)
        self.model.initialize(ctx=self.device)
        made = self.initial_weights(
            {
                name: self._of_data(numpy.empty(weight.shape, bool), turned).shape
                for name, weight, turned in self._parameters()
            }
        )
        for name, weight, turned in self._parameters():
            value = made[name].T if turned else made[name]
            if self.last and value.ndim == 4:
                value = value.transpose(0, 2, 3, 1)
            weight.set_data(mxnet.nd.array(value).tostype(weight._stype))
        if context.case["execution"] == "graph":
            self.model.hybridize(static_alloc=True, static_shape=True)
        store, horovod = context.runtime.store, context.runtime.horovod
        name, settings = optimizer_of(params, OPTIMIZERS)(params)
        if params["optimizer"] == "adamw":
            for _, weight, _ in self._parameters():
                weight.wd_mult = float(len(weight.shape) > 1)
        if store and self.ranks_agree():
            # Synchronous servers sum the gradients of all workers and update once.
            settings["rescale_grad"] = 1.0 / context.world_size
        weights = self.model.collect_params()
        if horovod:
            horovod.broadcast_parameters(weights)
            self.trainer = horovod.DistributedTrainer(weights, name, settings)
        else:
            # A sparse table needs a store, at least this process's own.
            self.trainer = gluon.Trainer(weights, name, settings, kvstore=store or "local")
        if self.half:
            amp.init_trainer(self.trainer)  # its loss scale: 2^16 at first, halved by an overflow
        self.batches = self.feed(self._on_device)

    def _of_data(self, value, turned):
        """Return a weight in data.py's layout; channels-last filters are (out, h, w, in) here."""
        if turned:
            return value.T
        return value.transpose(0, 3, 1, 2) if self.last and value.ndim == 4 else value

    def _on_device(self, batch):
        if self.last:
            batch = channels_last.batch(batch)
        return {name: mxnet.nd.array(x, self.device, x.dtype) for name, x in batch.items()}

    def _parameters(self):
        """Yield the name in data.py, the parameter, and whether data.py stores it transposed."""
        found = set()
        for path, weight, turned in _held(self.model, ""):
            if weight.grad_req != "null" and id(weight) not in found:
                found.add(id(weight))  # a tied weight keeps its first name
                owner, dot, name = path.rpartition(".")
                yield owner + dot + NAMES.get(name, name), weight, turned

    def ranks_agree(self):
        """Return True for `sync`, too: workers fetch weights after all gradients of a step."""
        return super().ranks_agree() or self.context.case["sync"] == "sync"

    def serve(self):
        """Run the scheduler or a server until all workers have left."""
        kvstore.kvstore_server.KVStoreServer(mxnet.kv.create("dist")).run()

    def step(self):
        """Queue forward, backward, exchange and update; the loss stays on the device."""
        batch = next(self.batches)
        with autograd.record():
            loss = self.network.loss(self.model, batch)
            scaled = loss
            if self.half:
                with amp.scale_loss(loss, self.trainer) as scaled:
                    pass
        scaled.backward()
        self.trainer.step(1)  # losses are means already
        self.kept.append(loss)

    def losses(self):
        """The losses of all steps so far."""
        return [float(loss.asscalar()) for loss in self.kept]

    def weights(self):
        """Return name -> value of trainable parameters; sparse tables come from the servers."""
        return {
            name: self._of_data(_array(weight), turned)
            for name, weight, turned in self._parameters()
        }

    def modes_used(self):
        """Return whether the network runs as a cached graph, and its convolutions' layout."""
        return {
            "execution": "graph" if _is_cached(self.model) else "default",
            "layout": "channels_last" if self.last and self._channels_are_last() else "default",
        }

    def _channels_are_last(self):
        nodes = json.loads(self.model(mxnet.sym.var("images")).tojson())["nodes"]
        layouts = {node["attrs"]["layout"] for node in nodes if node["op"] == "Convolution"}
        return layouts == {"NHWC"}

    def precision_proof(self):
        """Return the precision that a product with 1 + 2^-12 shows: only float32 keeps it."""
        fine = mxnet.nd.full((256, 256), 1 + 2.0**-12, self.device)
        one = mxnet.nd.eye(256, ctx=self.device)
        product = mxnet.nd.FullyConnected(fine, one, no_bias=True, num_hidden=256)
        exact = bool((product.astype("float32") == fine).min().asscalar())
        rounded = "fp16" if product.dtype == numpy.float16 else "tf32"
        return expect_precision(self.context.precision, "fp32" if exact else rounded)


def _held(block, prefix):
    """Yield path, parameter, and whether it is a fully connected layer's weight, of a block."""
    for name, weight in block._reg_params.items():
        yield prefix + name, weight, isinstance(block, nn.Dense) and name == "weight"
    for name, child in block._children.items():
        yield from _held(child, prefix + name + ".")


def _is_cached(block):
    """Return whether a block or a block inside it has a cached graph."""
    return bool(getattr(block, "_cached_op", None)) or any(
        map(_is_cached, block._children.values())
    )


def _array(weight):
    if weight._stype == "default":
        return weight.data().asnumpy()
    rows = mxnet.nd.arange(weight.shape[0], dtype="int64")
    return weight.row_sparse_data(rows).asnumpy()
