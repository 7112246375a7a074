"""Matrices split over devices that compute the same samples: tensor parallel by DTensor.

As in Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053), the first of two consecutive matrices is
split by columns and the second by rows. Between them, in norms and residuals, each device has a
part of every sequence (Korthikanti et al. 2022, arXiv:2205.05198). Logits and loss stay split.
"""

import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

__all__ = ["loss_parallel", "parts_of", "split"]


class Gathered(SequenceParallel):
    """A norm of a part of each sequence, whose output is gathered once for all its readers."""

    @staticmethod
    def _prepare_output_fn(use_local_output, mod, outputs, device_mesh):
        return outputs.redistribute(placements=[Replicate()])


def split(model, mesh, names):
    """Split a network's matrices over a mesh of one dimension.

    Args:
        model: the model with its initial weights.
        mesh: the devices that compute the same samples.
        names: last names of modules by how they are split: `columns`, `rows` and `norms`.
    """
    plan = {}
    for path, module in model.named_modules():
        name = path.rpartition(".")[2]
        if name in names["columns"]:
            whole = path != name  # A layer's output: the next layers read their own part.
            plan[path] = ColwiseParallel(use_local_output=whole)
        elif name in names["rows"]:
            inputs = Replicate() if isinstance(module, torch.nn.Embedding) else Shard(-1)
            plan[path] = RowwiseParallel(input_layouts=inputs, output_layouts=Shard(1))
        elif name in names["norms"]:
            plan[path] = Gathered()
    parallelize_module(model, mesh, plan)


def parts_of(model, names):
    """Return the smallest number of parts of a matrix; 1 if a matrix is whole."""
    found = []
    for path, module in model.named_modules():
        if path.rpartition(".")[2] in (*names["columns"], *names["rows"]):
            mesh = getattr(module.weight, "device_mesh", None)
            axes = () if mesh is None else zip(mesh.mesh_dim_names, module.weight.placements)
            split = [axis for axis, placed in axes if not placed.is_replicate()]
            found.append(mesh["tensor"].size() if "tensor" in split else 1)
    return min(found)
