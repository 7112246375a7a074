"""Optimizers of workloads in PyTorch, from the parameters of spec.json."""

import torch
from torch_optimizers import optimizers_of


def _by_mesh(parameters):
    """Return parameter groups by device mesh, because PyTorch updates each mesh separately."""
    groups = {}
    for weight in parameters:
        groups.setdefault(getattr(weight, "device_mesh", None), []).append(weight)
    return [{"params": each} for each in groups.values()]


OPTIMIZERS = optimizers_of(torch.optim, _by_mesh, fused=True)
"""Name -> maker from parameters of a network and of its workload."""

_STATES = ("exp_avg", "exp_avg_sq")


def keep_in_bf16(optimizer, device):
    """Store Adam's states in bfloat16 between steps; updates are computed in float32.

    PyTorch's kernel for GPUs accepts states in bfloat16. Older versions (2.11) refuse them, and
    CPUs have no such kernel. Then the states are cast to float32 during each update.
    """
    if device.type == "cuda" and _mixes(device):
        for group in optimizer.param_groups:
            _begin_in_bf16(optimizer, group["params"], device)
        return
    optimizer.register_step_pre_hook(lambda *_: _cast(optimizer, torch.float32))
    optimizer.register_step_post_hook(lambda *_: _cast(optimizer, torch.bfloat16))


def _begin_in_bf16(optimizer, weights, device):
    for weight in weights:
        states = {name: torch.zeros_like(weight, dtype=torch.bfloat16) for name in _STATES}
        optimizer.state[weight] = {"step": torch.zeros((), device=device), **states}


def _mixes(device):
    """Return whether the fused kernel accepts states of another type than their weight."""
    weight = torch.zeros(1, device=device, requires_grad=True)
    weight.grad = torch.zeros_like(weight)
    one = torch.optim.AdamW([weight], fused=True)
    _begin_in_bf16(one, [weight], device)
    try:
        one.step()
    except RuntimeError:
        return False
    return True


def _cast(optimizer, dtype):
    for state in optimizer.state.values():
        state.update({name: state[name].to(dtype) for name in _STATES})


def kept_in(optimizer):
    """Return the type of the optimizer's states as cases name it, or all types if they differ."""
    types = {state[name].dtype for state in optimizer.state.values() for name in _STATES}
    return " ".join(sorted({torch.bfloat16: "bf16", torch.float32: "fp32"}[each] for each in types))
