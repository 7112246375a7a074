"""Sequences split over devices that compute the same samples: context parallel.

Each device has a piece from the start of every sequence and one from its end, so that all devices
attend to the same number of positions. It gathers keys and values of all pieces, as in the training
of Llama 3 (Grattafiori et al. 2024, arXiv:2407.21783). PyTorch's own `context_parallel` sends them
around a ring instead, and has kernels only for GPUs.
"""

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_gather_tensor_autograd
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention


class Sequences:
    """One device's part of each sequence, and its attention to the whole sequence.

    Args:
        model: its modules call `attend`; its tables by position are cut here.
        tables: names of these tables, which are buffers of the network.
        mesh: the devices that compute the same sequences.
    """

    def __init__(self, model, tables, mesh):
        self.group, self.ranks, self.rank = mesh.get_group(), mesh.size(), mesh.get_local_rank()
        self.places = (self.rank, 2 * self.ranks - 1 - self.rank)
        self.parts = 1
        """Number of parts of each sequence in the last attention."""
        for name in tables:
            table = getattr(model, name)
            size = table.shape[1] // (2 * self.ranks)
            # Made beforehand: such masks cannot be made while operators are counted.
            self.masks = [causal_lower_right(size, (place + 1) * size) for place in self.places]
            setattr(model, name, self.cut(table))
        for module in model.modules():
            if hasattr(module, "attend"):
                module.attend = self.attend

    def cut(self, whole):
        """Return this device's two pieces of a tensor whose second dimension is the position."""
        pieces = whole.chunk(2 * self.ranks, 1)
        return torch.cat([pieces[place] for place in self.places], 1)

    def attend(self, query, key, value, is_causal, enable_gqa):
        """Return causal attention of heads (n, heads, length, size) to the whole sequences."""
        if not is_causal:
            raise NotImplementedError("found attention to all positions; expected causal attention")
        gathered = all_gather_tensor_autograd(torch.stack([key, value]), 3, self.group)
        pieces = gathered.chunk(2 * self.ranks, 3)
        key, value = torch.cat([*pieces[::2], *reversed(pieces[1::2])], 3)
        self.parts = key.shape[2] // query.shape[2]
        attended = []
        for part, mask in zip(query.chunk(2, 2), self.masks):
            until = (slice(None), slice(None), slice(mask.seq_len_kv))
            attended.append(
                scaled_dot_product_attention(
                    part, key[until], value[until], attn_mask=mask, enable_gqa=enable_gqa
                )
            )
        return torch.cat(attended, 2)

    def shared(self, losses):
        """Return the losses of whole sequences, averaged over the devices' pieces."""
        dist.all_reduce(losses, group=self.group)
        return losses / self.ranks
