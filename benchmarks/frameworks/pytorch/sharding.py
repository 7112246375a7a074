"""Parameters, gradients and optimizer states sharded over devices: FSDP2, and ZeRO's first stage.

The stages are those of Rajbhandari et al. 2019 (arXiv:1910.02054). If fewer than all devices share
a copy, an all-reduce of each device's shard keeps the copies equal (HSDP).
"""

import functools

import torch
from frameworks.pytorch import pipeline, tensor
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer


def mesh_of(context, device, by_batch=False):
    """Return the mesh of all ranks: stages x copies x shards x parts of matrices.

    With `by_batch`, it is stages x batches x context x parts of matrices. A rank that computes a
    piece of a sequence needs all weights, a copy or a shard of them.
    The last axes are neighbouring ranks, on one node if it has enough devices.
    """
    if device.type == "cuda":
        torch.cuda.init()  # Otherwise the mesh uses LOCAL_RANK, but a rank sees one device.
    shards = context.case.get("shard", 1)
    names, inner = ("copies", "shards"), shards
    if by_batch:
        names, inner = ("batches", "context"), context.pieces
    outer = context.world_size // (context.stages * inner * context.tensor)
    shape = (context.stages, outer, inner, context.tensor)
    return init_device_mesh(device.type, shape, mesh_dim_names=("stages", *names, "tensor"))


def split(model, context, mesh, dtype, experts):
    """Split a model by `tensor` and by stages 2 and 3, and move the rest to the device.

    A layer's parameters are gathered for its forward and backward (stage 3), or once for both
    (stage 2); weights outside the layers are gathered for the whole step.

    Args:
        model: the model with its initial weights.
        context: see `rank.Context`; its workload's `shards` names the list of layers.
        mesh: the mesh of all ranks.
        dtype: the type in which products are computed; None: the type of the weights.
        experts: this device's `Experts`, which stay as they are or are sharded further; or None.

    Returns:
        Number of a stage of this device -> its network; without a pipeline, the model alone.
    """
    stage = context.case.get("shard_stage")
    stages = {0: model}
    if context.stages > 1:
        stages = pipeline.cut(model, context, mesh["stages"].get_local_rank())
    if context.tensor > 1:
        tensor.split(model, mesh["tensor"], context.matrices)
    reduced = None if dtype is None else torch.float32
    # Inputs keep their type: a layer's table of rotations is float32.
    policy = MixedPrecisionPolicy(dtype, reduced, cast_forward_inputs=False)
    if stage is None:
        wrap = functools.partial(replicate, mesh=mesh["copies"], mp_policy=policy)
    else:
        data = mesh["shards"] if mesh["copies"].size() == 1 else mesh["copies", "shards"]
        again = {"reshard_after_forward": stage == 3}
        wrap = functools.partial(fully_shard, mesh=data, mp_policy=policy)
        own = set(experts.weights() if experts else ())
        if experts and experts.placed:
            again["shard_placement_fn"] = lambda each: experts.placed if each in own else None
        elif experts:
            wrap = functools.partial(wrap, ignored_params=own)
    for layer in getattr(model, context.shards):
        wrap(layer, **({} if stage is None else again))
    for each in stages.values():
        wrap(each)
    return stages


def split_states(optimizer, mesh):
    """Return the optimizer with each state on one of the devices that share a copy (stage 1).

    That device updates the parameter and broadcasts it.
    """
    group = mesh["shards"].get_group()
    return ZeroRedundancyOptimizer(optimizer.param_groups, type(optimizer), group)


def _groups(state):
    """Return the parameter groups of an FSDP state; older PyTorch has one group or none."""
    if hasattr(state, "_fsdp_param_groups"):
        return state._fsdp_param_groups
    return [state._fsdp_param_group] if state._fsdp_param_group else []


def stage_of(model, optimizer):
    """Return the stage by which parameters and states are really split: "1" to "3", or "none"."""
    states = [m._get_fsdp_state() for m in model.modules() if isinstance(m, FSDPModule)]
    if states:
        # The root is never gathered again: its layers show the stage.
        groups = [g for state in states if not state._is_root for g in _groups(state)]
        again = [group.post_forward_mesh_info is not None for group in groups]
        return "3" if again and all(again) else "2"
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        held = sum(len(group["params"]) for group in optimizer.optim.param_groups)
        if held < sum(len(group["params"]) for group in optimizer.param_groups):
            return "1"
    return "none"
