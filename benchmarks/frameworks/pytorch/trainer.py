"""Training in PyTorch: eager or compiled, replicated or split between ranks, autocast."""

import contextlib
import os
import shutil
from functools import partial

import numpy
import torch
from base_trainer import Base, DoesNotFit, expect_precision, optimizer_of
from frameworks.pytorch import tuning
from frameworks.pytorch.dgc import SPARSITY, Dgc
from frameworks.pytorch.flops import Flops
from frameworks.pytorch.optimizers import OPTIMIZERS, keep_in_bf16, kept_in
from torch import nn
from torch.nn.attention import sdpa_kernel
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

aten = torch.ops.aten
KEPT = [
    aten.mm.default,
    aten.addmm.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
]
"""Operators whose recomputation would cost most."""

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Trainer(Base):
    """One rank."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        params, device = context.params, context.runtime.device
        tf32 = context.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
        self.device, self.tuning = device, context.case.get("tuning", "default")
        self.model = network.model(params)
        self._load()
        layout = torch.preserve_format
        if context.case["layout"] == "channels_last":
            layout = torch.channels_last
        stage = context.case.get("shard_stage")
        parted = stage in (2, 3) or context.together > 1
        if parted or stage == 1:
            from frameworks.pytorch import sharding  # Slow to import: only for these cases.

            mesh = sharding.mesh_of(context, device)
        recompute = context.case.get("recompute", "none")
        if recompute != "none":
            self._recompute(recompute)
        self.experts = None
        if context.devices_of_experts > 1:
            from frameworks.pytorch.experts import Experts

            self.experts = Experts(self.model, context, device)
        if parted:
            dtype = AUTOCAST.get(context.precision)
            stages = sharding.split(self.model, context, mesh, dtype, self.experts)
        else:
            self.model.to(device, memory_format=layout)
        self.sequences = None
        if context.pieces > 1:
            from frameworks.pytorch.context import Sequences

            pieces = sharding.mesh_of(context, device, by_batch=True)["context"]
            self.sequences = Sequences(self.model, context.tables, pieces)
        self.forward = self.model
        self.compression = None
        if context.case["compression"] == "dgc":
            params = self._compress(params)
        elif context.grouped and not parted:
            warmup_steps = context.job["protocol"]["warmup_steps"]
            self.forward = tuning.replicated(self.model, self.tuning, warmup_steps)
        make = optimizer_of(params, OPTIMIZERS)
        updates = tuning.UPDATES.get(self.tuning, {})
        self.optimizer = make(self.model.parameters(), params, **updates)
        if stage == 1:
            self.optimizer = sharding.split_states(self.optimizer, mesh)
        self.adam = None
        if context.case.get("state_precision", "fp32") == "bf16":
            self.adam = getattr(self.optimizer, "optim", self.optimizer)  # of stage 1: its own part
            keep_in_bf16(self.adam, device)
        self.scaler = torch.amp.GradScaler(device.type, enabled=context.precision == "fp16")
        self.decoder, self.held = tuning.decoder(self.tuning, device), tuning.Held()
        self.batches = self.feed(self._on_device)
        self.loss = network.loss
        self.pipeline = None
        if context.stages > 1:
            one = mesh["stages"]
            self.pipeline = sharding.pipeline.Pipeline(stages, context, one, device, self.loss)
        self.loss_in_parts = contextlib.nullcontext
        if context.tensor > 1:
            self.loss_in_parts = sharding.tensor.loss_parallel
        if context.case["compiler"] == "inductor":
            self._compile()
        self.scales = []
        self.one = torch.ones((), device=device)

    def _on_device(self, batch):
        """Copy a batch to the device, also tensors already there; images get the case's layout."""
        tensors = {
            name: torch.from_numpy(x) if isinstance(x, numpy.ndarray) else torch.from_dlpack(x)
            for name, x in batch.items()
        }
        there = [tensor for tensor in tensors.values() if tensor.is_cuda]
        if self.sequences:
            tensors = {name: self.sequences.cut(tensor) for name, tensor in tensors.items()}
        layouts = dict.fromkeys(tensors, torch.preserve_format)
        if self.context.case["layout"] == "channels_last":
            images = [name for name, tensor in tensors.items() if tensor.dim() == 4]
            if not images:
                raise DoesNotFit("found no images in a batch; expected some for channels_last")
            layouts.update(dict.fromkeys(images, torch.channels_last))
        placed = {
            name: tensor.to(self.device, memory_format=layouts[name], copy=tensor.is_cuda)
            for name, tensor in tensors.items()
        }
        if there:
            self.held.keep(there)
        return placed

    def _compress(self, params):
        """Compress gradients by DGC; return the parameters without momentum, which DGC applies."""
        context = self.context
        if not context.grouped or context.precision == "fp16":
            raise DoesNotFit(
                "compression dgc: found {} rank(s) and precision {}; expected several ranks, and "
                "no scaled gradients".format(context.world_size, context.precision)
            )
        sparsity = context.case["sparsity"]
        self.compression = Dgc(
            self.model.parameters(),
            params,
            SPARSITY if sparsity is None else sparsity,
            context.job["protocol"]["warmup_steps"],
        )
        return {**params, "optimizer": "sgd", "weight_decay": 0.0}

    def _recompute(self, what):
        """Make layers keep only their inputs (full), or products and attention too (selective)."""
        more = {}
        if what == "selective":
            more["context_fn"] = partial(create_selective_checkpoint_contexts, KEPT)
        for layer in getattr(self.model, self.context.shards):
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, **more)

    def _compile(self):
        """Compile forward and backward before the first step; weights do not change."""
        cxx = os.environ.get("CXX", "g++")
        if self.device.type == "cpu" and shutil.which(cxx) is None:
            raise DoesNotFit(
                "compiler inductor: found no {} on PATH; expected the C++ compiler that inductor "
                "makes code for the CPU with (the variable CXX names another)".format(cxx)
            )
        self.loss = torch.compile(self.loss, **tuning.COMPILE.get(self.tuning, {}))
        with self.autocast():
            loss = self.loss(self.forward, self._on_device(self.example()))
        loss.backward()

    def _load(self):
        shapes = {name: weight.shape for name, weight in self._in_layout_of_data()}
        made = self.initial_weights(shapes)
        with torch.no_grad():
            for name, weight in self._in_layout_of_data():
                weight.copy_(torch.from_numpy(made[name]))

    def _in_layout_of_data(self):
        """Yield name and view of each trainable parameter, in data.py's layout."""
        matrices = {id(m.weight) for m in self.model.modules() if isinstance(m, nn.Linear)}
        for name, weight in self.model.named_parameters():
            if weight.requires_grad:
                # PyTorch's Linear holds (out, in), data.py (in, out).
                yield name, weight.t() if id(weight) in matrices else weight

    def step(self):
        """Run forward, backward and update; the loss stays on the device."""
        batch = next(self.batches)
        self.optimizer.zero_grad(set_to_none=True)
        with self.loss_in_parts():
            if self.pipeline:
                with self.autocast():
                    loss = self.pipeline.step(batch)
            else:
                loss = self._forward_and_backward(batch)
        if self.experts:
            self.experts.average()
        if self.compression:
            self.compression.exchange()
            self.sent_bytes_per_step = self.compression.sent_bytes
        if self.scaler.is_enabled():
            self.scales.append(self.scaler.scale(self.one))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        loss = _whole(loss.detach())
        # A CUDA graph's next step writes its result there; on a CPU its memory follows that of the
        # forward pass, which malloc then cannot use again (4 MB per step of the smallest gpt2).
        copied = self.device.type == "cpu" or self.tuning == "compile_cuda_graphs"
        self.kept.append(loss.clone() if copied else loss)

    def _forward_and_backward(self, batch):
        """Run forward and backward of a batch, in the case's micro-batches; return the loss."""
        parts, losses, cut = self.context.case.get("micro_batches", 1), [], [batch]
        if parts > 1:
            chunks = {name: tensor.chunk(parts) for name, tensor in batch.items()}
            cut = [{name: each[n] for name, each in chunks.items()} for n in range(parts)]
        for number, part in enumerate(cut):
            with self._exchanging(number == parts - 1):
                with self.autocast():
                    loss = self.loss(self.forward, part)
                if parts > 1:
                    loss = loss / parts
                self.scaler.scale(loss).backward()
            losses.append(loss.detach())
        return sum(losses[1:], losses[0])

    def _exchanging(self, is_last):
        """Return a context in which gradients are exchanged only for a step's last micro-batch."""
        if hasattr(self.model, "set_requires_gradient_sync"):
            self.model.set_requires_gradient_sync(is_last)
        elif not is_last and self.context.grouped:
            return self.forward.no_sync()
        return contextlib.nullcontext()

    def count_step(self):
        """Run one more step, and count its FLOPs and the bytes that its collectives send."""
        context = self.context
        with contextlib.ExitStack() as stack:
            if context.case["compiler"] != "none":
                if not hasattr(torch.compiler, "set_stance"):  # before 2.6
                    return
                # Otherwise Dynamo would no longer compile the step.
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            flops, sent = stack.enter_context(Flops()), None
            if context.grouped and not self.compression:
                from frameworks.pytorch.sent import Sent

                sent = stack.enter_context(Sent())
            self.step()
        if context.pieces == 1:  # Otherwise attention skips masked blocks.
            self.flops_per_step = flops.total
        if sent:
            self.sent_bytes_per_step = sent.bytes
        if self.flops_per_step and context.together * context.devices_of_experts > 1:
            self.flops_per_step = context.runtime.mean(flops.total)

    def _forward(self, function):
        with torch.no_grad(), self.autocast():
            return function(self.model, next(self.batches)).tolist()

    def updates_made(self):
        """Return the number of steps without an overflow, which halves the scale until it is 0."""
        if not self.scaler.is_enabled():
            return None
        scales = [*self.scales, self.scaler.scale(self.one)]
        found = torch.stack(scales).tolist()
        return sum(after >= before > 0 for before, after in zip(found, found[1:]))

    def losses(self):
        """Return the losses of all steps so far."""
        kept = torch.stack(self.kept).float()
        for split in filter(None, (self.pipeline, self.sequences)):
            kept = split.shared(kept)
        return kept.tolist()

    def weights(self):
        """Return name -> value of all trainable parameters."""
        own = {
            name: _whole(weight.detach()).float().cpu().numpy()
            for name, weight in self._in_layout_of_data()
        }
        split = self.pipeline or self.experts
        return split.joined(own) if split else own

    def autocast(self):
        """Return a context of the case's mixed precision and attention kernel."""
        dtype = AUTOCAST.get(self.context.precision)
        mixed = torch.autocast(self.device.type, dtype, enabled=dtype is not None)
        if self.tuning not in tuning.ATTENTION:
            return mixed
        both = contextlib.ExitStack()
        both.enter_context(mixed)
        both.enter_context(sdpa_kernel(tuning.ATTENTION[self.tuning]))
        return both

    def modes_used(self):
        """Return the compiler, layout, compression and splits that were really used."""
        case, found = self.context.case, {}
        if case["compiler"] != "none":
            compiled = torch._dynamo.utils.counters["aot_autograd"]["ok"]
            found["compiler"] = "inductor" if compiled else "none"
        if case["layout"] != "default":
            found["layout"] = "channels_last" if self._channels_are_last() else "default"
        if case["compression"] != "none":
            less = (self.sent_bytes_per_step or 0) < 4 * self.parameters
            found["compression"] = "dgc" if self.compression and less else "none"
        if case.get("shard_stage") is not None:
            from frameworks.pytorch import sharding

            found["shard_stage"] = sharding.stage_of(self.model, self.optimizer)
        if self.adam:
            found["state_precision"] = kept_in(self.adam)
        if self.tuning != "default":
            found["tuning"] = tuning.used(self.tuning, self)
        return {**found, **self._splits_used()}

    def _splits_used(self):
        """Return over how many devices matrices, sequences and experts are split; the schedule."""
        context, found = self.context, {}
        if context.tensor > 1:
            from frameworks.pytorch import tensor

            found["tensor"] = str(tensor.parts_of(self.model, context.matrices))
        if context.pieces > 1:
            found["context"] = str(self.sequences.parts if self.sequences else 1)
        if context.devices_of_experts > 1:
            experts = context.params["experts"]
            found["expert"] = str(self.experts.parts(experts) if self.experts else 1)
        if context.stages > 1:
            layers = len(getattr(self.model, context.shards)) * context.stages
            split = self.pipeline and layers == context.params["layers"]
            found["schedule"] = self.pipeline.name() if split else "none"
        return found

    def _channels_are_last(self):
        """Return whether all convolutions return channels last in a forward outside the window."""
        seen = []
        hooks = [
            layer.register_forward_hook(lambda _, __, result: seen.append(result))
            for layer in self.model.modules()
            if isinstance(layer, nn.Conv2d)
        ]
        with torch.no_grad(), self.autocast():
            self.loss(self.model, self._on_device(self.example()))
        for hook in hooks:
            hook.remove()
        large = [each for each in seen if min(each.shape[1:]) > 1]  # other tensors have both orders
        return bool(large) and all(
            each.is_contiguous(memory_format=torch.channels_last) for each in large
        )

    def precision_proof(self):
        """Return the precision that products with 1 + 2^-12 show: TF32, bfloat16 round it to 1.

        fp16 keeps as many bits as TF32. Autocast is recognised by the type of the product.
        """
        size = 256
        fine = torch.full((size, size), 1 + 2.0**-12, device=self.device)
        unit = torch.eye(size, device=self.device)
        with self.autocast():
            product = fine @ unit
            image = nn.functional.conv2d(fine.view(1, size, 16, 16), unit.view(size, size, 1, 1))
        types = {torch.bfloat16: "bf16", torch.float16: "fp16"}
        if product.dtype in types:
            return expect_precision(self.context.precision, types[product.dtype])
        exact = bool((product == fine).all())
        flags = torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
        if exact and (flags or not bool((image.flatten() == fine.flatten()).all())):
            raise RuntimeError("products are computed in fp32, but TF32 is allowed elsewhere")
        return expect_precision(self.context.precision, "fp32" if exact else "tf32")


def _whole(weight):
    """Return a parameter gathered from its shards; all ranks with a shard must call this."""
    return weight.full_tensor() if hasattr(weight, "full_tensor") else weight
