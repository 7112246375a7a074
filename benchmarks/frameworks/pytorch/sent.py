"""The bytes that a rank sends in a step, counted from the collectives that it calls."""

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

RING = {
    "allreduce_": 2,
    "all_reduce": 2,
    "_allgather_base_": 1,
    "allgather_": 1,
    "all_gather_into_tensor": 1,
    "_reduce_scatter_base_": 1,
    "reduce_scatter_": 1,
    "reduce_scatter_tensor": 1,
    "broadcast_": 1,
    "broadcast": 1,
    "alltoall_base_": 1,
}
"""Collective -> how often a rank of N sends (N - 1) / N of the whole, at best."""
PASSED_OVER = ("recv_", "barrier", "wait_tensor", "_wrap_tensor_autograd")


class Sent(TorchDispatchMode):
    """Counts the bytes that this rank sends in its block: by ring algorithms, and to neighbours."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Call a function, and count its bytes if it is a collective."""
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented  # It comes again as its parts.
        name = func._schema.name
        sparse = name == "c10d::allreduce_" and any(each.is_sparse for each in args[0])
        # Counted before the call, because the sum replaces the sent values.
        gathered = sum(map(_sparse_bytes, args[0])) if sparse else 0
        found = func(*args, **(kwargs or {}))
        if sparse:
            self.bytes += gathered * (_group_size(args) - 1)
        elif name.startswith(("c10d::", "_c10d_functional::")):
            self.bytes += _sent(name.rpartition("::")[2], args, found)
        return found


def _sent(name, args, found):
    if name in PASSED_OVER:
        return 0
    if name == "send":
        return _bytes(args[0])
    if name == "all_to_all_single":
        rows, _, sizes, group = args
        own = sizes[dist.distributed_c10d._resolve_process_group(group).rank()]
        return rows.nbytes * (sum(sizes) - own) // max(1, sum(sizes))
    if name not in RING:
        raise RuntimeError(
            "found the collective {}; expected one with a known number of sent bytes".format(name)
        )
    whole, ranks = max(_bytes(each) for each in (*args, found)), _group_size(args)
    return RING[name] * whole * (ranks - 1) // ranks


def _sparse_bytes(gradient):
    """Return the bytes of a sparse gradient's distinct rows, which ranks all-gather and add."""
    rows = gradient.coalesce()
    return rows.indices().nbytes + rows.values().nbytes


def _bytes(tensors):
    return sum(each.nbytes for each in tree_leaves(tensors) if hasattr(each, "nbytes"))


def _group_size(args):
    """Return the size of a collective's group, given as an object or as the last name."""
    for each in args:
        if isinstance(each, torch.ScriptObject) and each._type().name() == "ProcessGroup":
            return dist.ProcessGroup.unbox(each).size()
    name = [each for each in args if isinstance(each, str)][-1]
    return dist.distributed_c10d._resolve_process_group(name).size()
