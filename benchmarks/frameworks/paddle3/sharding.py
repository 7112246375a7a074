"""Optimiser states split over devices, by fleet's hybrid configuration.

That is the first stage of Rajbhandari et al. 2019 (arXiv:1910.02054). Where fewer devices than all
share a copy, fleet sums the gradients of copies.
"""

import contextlib

import paddle.distributed as dist
from base_trainer import DoesNotFit
from paddle.distributed import fleet


def split(model, optimizer, context):
    """Returns what computes the forward, and the optimiser that exchanges and updates.

    Args:
        model: with the weights to begin with.
        optimizer: of its parameters.
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
    with _groups(context, copies):
        fleet.init(is_collective=True, strategy=strategy)
    return fleet.distributed_model(model), fleet.distributed_optimizer(optimizer)


@contextlib.contextmanager
def _groups(context, copies):
    """On CPUs all groups of all ranks are the one that is there.

    Ranks of a gloo group find each other by keys that PaddlePaddle 3.3 does not tell from those of
    the group before: a second one connects to ports that are closed.
    """
    if context.device is not None:
        yield
        return
    if copies > 1:
        raise DoesNotFit(
            "shard: found {} of {} ranks; expected all on CPUs, where PaddlePaddle has one group "
            "of gloo".format(context.case["shard"], context.world_size)
        )
    made, everyone = dist.new_group, dist.get_group(0)

    def new_group(ranks=None, **named):
        return everyone if len(ranks) == context.world_size else made(ranks, **named)

    dist.new_group = new_group
    try:
        yield
    finally:
        dist.new_group = made


def stage_of(model, optimizer):
    """The stage that states are really split by: "1" or "none"."""
    weights = [weight for weight in model.parameters() if not weight.stop_gradient]
    inner = optimizer
    while hasattr(inner, "_inner_opt"):
        inner = inner._inner_opt
    held = {name for each in inner._accumulators.values() for name in each}
    return "1" if 0 < len(held) < len(weights) else "none"
