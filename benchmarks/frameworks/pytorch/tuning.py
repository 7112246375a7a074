"""Switches that only PyTorch has, by the names under `tuning` in its `framework.json`.

Each is set where PyTorch's own programs set it. After the window, `used` finds what really ran.
"""

import collections

import torch
from torch.nn.attention import SDPBackend
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

REDUCER = {
    "ddp_bucket_1mb": {"bucket_cap_mb": 1},
    "ddp_bucket_100mb": {"bucket_cap_mb": 100},
    "ddp_bucket_view": {"gradient_as_bucket_view": True},
    "ddp_static_graph": {"static_graph": True},
}
"""`tuning` -> arguments by which DistributedDataParallel puts gradients into buckets."""
HOOKS = {"ddp_fp16": torch.float16, "ddp_bf16": torch.bfloat16}
"""`tuning` -> type in which gradients are exchanged."""
UPDATES = {
    "optimizer_fused": {"fused": True},
    "optimizer_foreach": {"foreach": True, "fused": False},
    "optimizer_for_loop": {"foreach": False, "fused": False},
}
"""Kernels: one for all parameters and operations, one per operation, one per both."""
COMPILE = {
    "compile_max_autotune": {"mode": "max-autotune-no-cudagraphs"},
    "compile_cuda_graphs": {"mode": "reduce-overhead"},
}
ATTENTION = {
    "sdpa_math": SDPBackend.MATH,
    "sdpa_flash": SDPBackend.FLASH_ATTENTION,
    "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
}


def replicated(model, name, warmup_steps):
    """Return a model whose gradients are averaged over all ranks."""
    found = DistributedDataParallel(model, **REDUCER.get(name, {}))
    if name in HOOKS:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        hooks = {"ddp_fp16": default_hooks.fp16_compress_hook}
        hooks["ddp_bf16"] = default_hooks.bf16_compress_hook
        found.register_comm_hook(None, hooks[name])
    if name == "ddp_powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        # Its factors start after this number of steps with full gradients, none of which is in the
        # window. PyTorch requires at least two.
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=max(2, warmup_steps))
        found.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return found


def decoder(name, device):
    """Return the decoder of real images; None if their reader decodes."""
    if name != "dali":
        return None
    from readers.dali import Decoder

    return Decoder(device.type == "cuda")


class Held:
    """Batches that were decoded on the device, kept until the device has copied them.

    A step drops them when the host is done with it; DALI may then decode into their memory.
    """

    def __init__(self):
        self._kept = collections.deque()

    def keep(self, tensors):
        """Keep tensors whose copy is queued; drop tensors that have been copied."""
        copied = torch.cuda.Event()
        copied.record()
        self._kept.append((copied, tensors))
        while self._kept and self._kept[0][0].query():
            self._kept.popleft()


class Seen(TorchDispatchMode):
    """Records the operators called in its block, and the types that collectives reduce."""

    def __init__(self):
        super().__init__()
        self.operators, self.reduced, self.bytes = set(), set(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Record a call and execute it."""
        name = func._schema.name
        self.operators.add(name)
        if name == "c10d::allreduce_":
            self.reduced.update(each.dtype for each in args[0])
            self.bytes += sum(each.nbytes for each in args[0] if not each.is_sparse)
        return func(*args, **(kwargs or {}))


def used(name, trainer):
    """Return the name if one more step shows that its switch was used, otherwise `default`."""
    if name in REDUCER:
        return name if _reducer_used(name, trainer.forward._get_ddp_logging_data()) else "default"
    if name in COMPILE:
        return name if _compiler_used(name) else "default"
    if name == "dali":
        # At least the batches that steps have used so far.
        return name if 0 < len(trainer.data_waits_s or ()) <= trainer.decoder.decoded else "default"
    with Seen() as seen:
        trainer.step()
    if name in HOOKS:
        good = HOOKS[name] in seen.reduced
    elif name == "ddp_powersgd":
        good = 0 < seen.bytes < 4 * trainer.parameters
    elif name in ATTENTION:
        good = _attention_used(name, seen.operators)
    else:
        fused = any("_fused_" in each for each in seen.operators)
        foreach = any("_foreach_" in each for each in seen.operators)
        found = "fused" if fused else "foreach" if foreach else "for_loop"
        good = name == "optimizer_" + found
    return name if good else "default"


def _reducer_used(name, told):
    """Return whether the reducer has the setting that `name` asks for."""
    if "bucket_cap_mb" in REDUCER[name]:
        return told["bucket_cap_bytes"] == REDUCER[name]["bucket_cap_mb"] * 2**20
    return bool(told["static_graph" if name == "ddp_static_graph" else "gradient_as_bucket_view"])


def _compiler_used(name):
    """Return whether inductor timed its kernels, or recorded CUDA graphs, as `name` asks."""
    counted = torch._dynamo.utils.counters["inductor"]
    if name == "compile_max_autotune":
        return counted["select_algorithm_autotune"] > 0
    return counted["cudagraph_skips"] == 0 and torch.cuda.is_available()


def _attention_used(name, operators):
    kernels = {
        "sdpa_flash": "_scaled_dot_product_flash_attention",
        "sdpa_efficient": "_scaled_dot_product_efficient_attention",
        "sdpa_cudnn": "_scaled_dot_product_cudnn_attention",
    }
    found = {each for each in operators if "_scaled_dot_product" in each}
    if name == "sdpa_math":
        return not found
    return any(kernels[name] in each for each in found)
