"""Prints the operators of a step of a trainer of pytorch on a GPU, where there is none.

    python pytorch_gpu_program.py CODE job.json ...

CODE is the folder of the benchmarks; the environment is one for GPUs. Tensors are fake: they have
shapes, types and a device, and no values. Prints a line of JSON for each job: `types`, operator ->
the types of what it gives; `tf32`, whether products were allowed it; `modes`, what the trainer says
that it used.
"""

import collections
import json
import sys
import types

import torch
from node_trainer import trainer_of
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CODE, *JOBS = sys.argv[1:]
CUDA = torch.device("cuda", 0)
SWITCHES = {
    "aten::convolution": torch.backends.cudnn,
    "aten::mm": torch.backends.cuda.matmul,
    "aten::addmm": torch.backends.cuda.matmul,
}
"""Product -> what says whether it may be computed in TF32."""


ATTENTION = {
    "flash": (torch.ops.aten._scaled_dot_product_flash_attention, ()),
    "mem_efficient": (torch.ops.aten._scaled_dot_product_efficient_attention, (None, True)),
    "cudnn": (torch.ops.aten._scaled_dot_product_cudnn_attention, (None, True)),
}
"""Kernel -> operator and what it takes before dropout: a mask, and whether a backward comes."""


class Seen(TorchDispatchMode):
    """The operators of its block."""

    def __init__(self):
        super().__init__()
        self.types, self.tf32 = collections.defaultdict(set), set()

    def __torch_dispatch__(self, func, _, args=(), kwargs=None):
        """Writes down a call, and does it."""
        name, made = func._schema.name, func(*args, **(kwargs or {}))
        given = made if made is not None else args
        tensors = [each for each in tree_leaves(given) if isinstance(each, torch.Tensor)]
        self.types[name].update(str(each.dtype).removeprefix("torch.") for each in tensors)
        if name in SWITCHES:
            self.tf32.add(SWITCHES[name].allow_tf32)
        return made


def put(model, device, memory_format):
    """`Module.to`, which cannot swap fake parameters: each is replaced."""
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    format_of = memory_format if tensor.dim() == 4 else torch.preserve_format
                    moved = tensor.detach().to(device, memory_format=format_of)
                    if tensor.requires_grad:
                        moved = torch.nn.Parameter(moved)
                    held[name] = moved
    return model


@torch.no_grad()
def backward(loss, *_, **__):
    """`Tensor.backward` without autograd's engine, which asks the driver for its device."""
    waits, found = collections.Counter(), [loss.grad_fn]
    for node in found:
        for after, _ in node.next_functions:
            if after is not None:
                waits[after] += 1
                if waits[after] == 1:
                    found.append(after)
    gradients = collections.defaultdict(dict)
    gradients[loss.grad_fn][0] = torch.ones_like(loss)
    ready = [loss.grad_fn]
    while ready:
        node = ready.pop()
        given = [gradients[node].get(number) for number in range(len(node._input_metadata))]
        if hasattr(node, "variable"):
            node.variable.grad = given[0]
            continue
        made = node(*given)
        made = made if isinstance(made, tuple) else (made,)
        for (after, number), gradient in zip(node.next_functions, made, strict=True):
            if after is None:
                continue
            if gradient is not None:
                of = after._input_metadata[number]
                gradient = gradient.sum_to_size(of.shape).to(of.dtype)
                before = gradients[after].get(number)
                gradients[after][number] = gradient if before is None else before + gradient
            waits[after] -= 1
            if not waits[after]:
                ready.append(after)


def attention(choose):
    """`scaled_dot_product_attention`, which asks the device where one kernel alone may be taken."""

    def attended(query, key, value, is_causal=False, **named):
        allowed = [
            name for name in ATTENTION if getattr(torch.backends.cuda, name + "_sdp_enabled")()
        ]
        if len(allowed) != 1 or torch.backends.cuda.math_sdp_enabled():
            return choose(query, key, value, is_causal=is_causal, **named)
        operator, between = ATTENTION[allowed[0]]
        return operator(query, key, value, *between, 0.0, is_causal)[0]

    return attended


def as_on_a_gpu():
    """What PyTorch asks a device or its driver, and the values of tensors without any."""
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    torch.nn.Module.to = put
    torch.autograd.backward = backward
    functional = torch.nn.functional
    functional.scaled_dot_product_attention = attention(functional.scaled_dot_product_attention)
    # It reads whether gradients have overflown.
    torch.amp.GradScaler._maybe_opt_step = lambda _, optimizer, __, **named: optimizer.step(**named)


def stepped(job):
    """What a step computes."""
    with FakeTensorMode(allow_non_fake_inputs=True), Seen() as seen:
        trainer = trainer_of(CODE, job, "trainer-0", "pytorch", types.SimpleNamespace(device=CUDA))
        seen.types.clear()
        trainer.step()
        operators = {name: sorted(each) for name, each in seen.types.items()}
        return {"types": operators, "tf32": sorted(seen.tf32), "modes": trainer.modes_used()}


as_on_a_gpu()
for path in JOBS:
    print(json.dumps(stepped(path)), flush=True)
