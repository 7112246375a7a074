"""Parameters, gradients and optimizer states sharded over devices.

The stages are those of Rajbhandari et al. 2019 (arXiv:1910.02054): the first by fleet's hybrid
configuration, the others by `group_sharded_parallel`. If fewer than all devices share a copy, both
sum the gradients of the copies.
"""

import contextlib
import math

import paddle
import paddle.distributed as dist
from paddle.distributed import fleet
from paddle.distributed.sharding import group_sharded_parallel


def split(model, optimizer, context):
    """Return the layer that computes the forward, and the optimizer that exchanges and updates.

    Args:
        model: the model with its initial weights.
        optimizer: an optimizer of the model's parameters.
        context: see `rank.Context`.
    """
    shards = context.case["shard"]
    copies = context.world_size // shards
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {
        "dp_degree": copies,
        "mp_degree": 1,
        "pp_degree": 1,
        "sharding_degree": shards,
    }
    with _groups(context):
        fleet.init(is_collective=True, strategy=strategy)
    if context.case["shard_stage"] == 1:
        return fleet.distributed_model(model), fleet.distributed_optimizer(optimizer)
    groups = fleet.get_hybrid_communicate_group()
    model, optimizer, _ = group_sharded_parallel(
        model,
        optimizer,
        {2: "os_g", 3: "p_g_os"}[context.case["shard_stage"]],
        group=groups.get_sharding_parallel_group(),
        dp_group=groups.get_data_parallel_group() if copies > 1 else None,
        segment_size=0,  # Otherwise small parameters stay whole.
    )
    return model, optimizer


def whole(weight):
    """Return a parameter gathered from its shards; all ranks of a copy must call this."""
    if not hasattr(weight, "fw_storage"):
        return weight
    group = fleet.get_hybrid_communicate_group().get_sharding_parallel_group()
    parts = []
    dist.all_gather(parts, weight.fw_storage.detach(), group=group)
    return paddle.concat(parts)[: math.prod(weight.shape)].reshape(weight.shape)


@contextlib.contextmanager
def _groups(context):
    """Replace, on CPUs, each new group of all ranks by the default group.

    Ranks of a gloo group find each other by keys. PaddlePaddle 3.3 reuses the keys of the group
    before, so that a second group connects to closed ports.
    """
    if context.device is not None:
        yield
        return
    made, everyone = dist.new_group, dist.get_group(0)

    def new_group(ranks=None, **named):
        return everyone if len(ranks) == context.world_size else made(ranks, **named)

    dist.new_group = new_group
    try:
        yield
    finally:
        dist.new_group = made


def states_of(optimizer):
    """Return kind of state -> name of a parameter -> its state on this rank."""
    while hasattr(optimizer, "_inner_opt"):
        optimizer = optimizer._inner_opt
    # `group_sharded_parallel` wraps it at stage 2; at stage 3 it is the object itself.
    return getattr(optimizer, "_optim", optimizer)._accumulators


def stage_of(model, optimizer):
    """Return the stage by which parameters, gradients and states are really split, or "none"."""
    weights = [weight for weight in model.parameters() if not weight.stop_gradient]
    parts = [getattr(weight, "fw_storage", weight) for weight in weights]
    if all(part.size < math.prod(weight.shape) for part, weight in zip(parts, weights)):
        return "3"
    held = {name for each in states_of(optimizer).values() for name in each}
    if not 0 < len(held) < len(weights):
        return "none"
    return "2" if any(weight.grad is None for weight in weights) else "1"
