"""Parameters, gradients and optimiser states split over devices: FSDP2, and ZeRO's first stage.

The stages are those of Rajbhandari et al. 2019 (arXiv:1910.02054). Where fewer devices than all
share a copy, the copies are kept equal by an all-reduce of what each device holds (HSDP).
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer


def mesh_of(context, device):
    """All ranks as copies x shards; shards are neighbours, on one node where it has enough."""
    if device.type == "cuda":
        torch.cuda.init()  # Else the mesh chooses a device by LOCAL_RANK: a rank sees only its own.
    shards = context.case["shard"]
    shape = (context.world_size // shards, shards)
    return init_device_mesh(device.type, shape, mesh_dim_names=("copies", "shards"))


def split(model, context, device, dtype):
    """Splits a model's parameters and moves what is left to the device, for stages 2 and 3.

    A layer's parameters are gathered for its forward and backward (stage 3), or once for both
    (stage 2); what lies outside of the layers is gathered for the whole step.

    Args:
        model: with the weights to begin with.
        context: see `rank.Context`; its workload's `shards` names the list of layers.
        device: of this rank.
        dtype: in which products are computed; None: as weights are.
    """
    mesh = mesh_of(context, device)
    mesh = mesh["shards"] if mesh.size(0) == 1 else mesh
    reduced = None if dtype is None else torch.float32
    # Inputs keep their type: a layer's table of rotations is float32.
    policy = MixedPrecisionPolicy(dtype, reduced, cast_forward_inputs=False)
    for layer in getattr(model, context.shards):
        again = context.case["shard_stage"] == 3
        fully_shard(layer, mesh=mesh, reshard_after_forward=again, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def split_states(optimizer, context, device):
    """The optimiser with each state on one of the devices that share a copy, for stage 1.

    That one updates the parameter and broadcasts it.
    """
    group = mesh_of(context, device)["shards"].get_group()
    return ZeroRedundancyOptimizer(optimizer.param_groups, type(optimizer), group)


def stage_of(model, optimizer):
    """The stage that parameters and states are really split by: "1", "2", "3" or "none"."""
    layers = [layer for layer in model.modules() if isinstance(layer, FSDPModule)]
    if layers:
        # The root is never gathered again: its layers say which stage it is.
        groups = [layer._get_fsdp_state()._fsdp_param_group for layer in layers[1:]]
        again = [group.post_forward_mesh_info is not None for group in groups if group]
        return "3" if again and all(again) else "2"
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        held = sum(len(group["params"]) for group in optimizer.optim.param_groups)
        if held < sum(len(group["params"]) for group in optimizer.param_groups):
            return "1"
    return "none"
