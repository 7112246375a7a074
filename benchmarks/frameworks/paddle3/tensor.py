"""Matrices split over devices that compute the same samples, by PaddlePaddle's `shard_tensor`.

As in Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053), the first of two consecutive matrices is
split by columns and the second by rows. PaddlePaddle decides what is exchanged.
"""

import paddle
import paddle.distributed as dist
from paddle.distributed.auto_parallel.api import dtensor_from_local


class Split:
    """The matrices of a model, split over neighbouring ranks; replicas are averaged.

    Args:
        model: the model with its initial weights; its parameters are replaced.
        context: see `rank.Context`.
    """

    def __init__(self, model, context):
        size, rank = context.tensor, context.rank
        first = rank // size * size
        self.mesh = dist.ProcessMesh(list(range(first, first + size)), dim_names=["tensor"])
        same_part = list(range(rank % size, context.world_size, size))
        self.copies = dist.ProcessMesh(same_part, dim_names=["copies"])
        axes = {name: 1 for name in context.matrices["columns"]}
        axes.update({name: 0 for name in context.matrices["rows"]})
        self.matrices = []
        for path, layer in model.named_sublayers(include_self=True):
            axis = axes.get(path.rpartition(".")[2])
            placement = dist.Replicate() if axis is None else dist.Shard(axis)
            for name, weight in layer.named_parameters(include_sublayers=False):
                split = dist.shard_tensor(weight, self.mesh, [placement])
                setattr(layer, name, split)
                if axis is not None:
                    self.matrices.append(split)
            for name, buffer in layer.named_buffers(include_sublayers=False):
                setattr(layer, name, self.whole(buffer))

    def whole(self, tensor):
        """Return a tensor that is replicated on all devices of the split."""
        return dist.shard_tensor(tensor, self.mesh, [dist.Replicate()])

    def parts(self):
        """Return the number of parts of the matrix with the fewest parts."""
        own = (weight._local_value() for weight in self.matrices)
        return min(weight.size // part.size for weight, part in zip(self.matrices, own))

    def gathered(self, weight):
        """Return a parameter gathered from its parts; every rank must call this."""
        return dist.reshard(weight, self.mesh, [dist.Replicate()])._local_value()

    def average(self, weights):
        """Average the gradients over replicas; each device has the gradients of its own parts."""
        count = self.copies.size
        if count == 1:
            return
        for weight in weights:
            own = weight.grad._local_value()
            of_all = dtensor_from_local(own, self.copies, [dist.Partial()])
            summed = dist.reshard(of_all, self.copies, [dist.Replicate()])
            paddle.assign(summed._local_value() / count, output=own)
