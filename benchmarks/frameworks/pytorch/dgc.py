"""Deep Gradient Compression (Lin et al. 2017, arXiv:1712.01887), which replaces the all-reduce.

The largest accumulated gradients of each parameter are sent, as values and indices in one
all-gather. The others are accumulated. Momentum is applied before the exchange (momentum
correction). The momentum of sent entries is set to 0 (momentum factor masking).
"""

import torch
import torch.distributed as dist
from base_trainer import DoesNotFit

SPARSITY = 99.9
"""Percent that is not sent if a case does not state it (section 4 of the paper)."""
STAGES = 4
"""The sparsity grows through 75, 93.75, 98.4 and 99.6 % (section 3.3)."""
ENTRY_BYTES = 8
"""A float32 and an int32 index."""


class Dgc:
    """Exchanges the gradients of a network's parameters after each backward.

    Args:
        parameters: of the network; all ranks get rank 0's values.
        params: of the workload: `momentum`, `weight_decay`, and `clip_norm` if gradients are
            clipped; each rank clips at 1 / sqrt(ranks) of it (section 3.3).
        sparsity: percent of entries that is not sent.
        warm_up_steps: steps in which the sparsity grows; those of the protocol, so that the window
            has one sparsity.
    """

    def __init__(self, parameters, params, sparsity, warm_up_steps):
        if params["optimizer"] not in ("sgd", "momentum"):
            raise DoesNotFit(
                "compression dgc: found optimizer {!r}; expected sgd or momentum, which it "
                "corrects".format(params["optimizer"])
            )
        self.parameters = list(parameters)
        with torch.no_grad():
            for weight in self.parameters:
                dist.broadcast(weight, 0)
        self.ranks = dist.get_world_size()
        self.momentum = params["momentum"] if params["optimizer"] == "momentum" else 0.0
        self.decay = params.get("weight_decay", 0.0)
        self.clip_norm = params.get("clip_norm")
        self.density = 1 - sparsity / 100
        self.warm_up_steps = warm_up_steps
        self.steps = 0
        self.sent_bytes = 0
        """Bytes that this rank sent to all other ranks in the last step."""
        self.sizes = [weight.numel() for weight in self.parameters]
        device = self.parameters[0].device
        self.velocity = torch.zeros(sum(self.sizes), device=device)
        self.accumulated = torch.zeros_like(self.velocity)

    def exchange(self):
        """Replace the gradients by the mean of what all ranks have sent."""
        with torch.no_grad():
            if self.decay:
                for weight in self.parameters:
                    weight.grad.add_(weight, alpha=self.decay)
            gradient = torch.cat([weight.grad.flatten() for weight in self.parameters])
            if self.clip_norm is not None:
                limit = self.clip_norm * self.ranks**-0.5
                gradient.mul_((limit / gradient.norm()).clamp(max=1.0))
            self.velocity.mul_(self.momentum).add_(gradient)
            self.accumulated.add_(self.velocity)
            mean = self._gather(self._largest()).div_(self.ranks)
            for weight, part in zip(self.parameters, mean.split(self.sizes)):
                weight.grad.copy_(part.view_as(weight))
        self.steps += 1

    def _largest(self):
        """Return indices of each parameter's largest entries, in the concatenated parameters."""
        density = self.density
        if self.steps < self.warm_up_steps:
            density = max(density, 0.25 ** (1 + STAGES * self.steps // self.warm_up_steps))
        chosen, begin = [], 0
        for size, part in zip(self.sizes, self.accumulated.split(self.sizes)):
            count = max(1, round(size * density))
            chosen.append(begin + part.abs().topk(count, sorted=False).indices)
            begin += size
        return torch.cat(chosen)

    def _gather(self, chosen):
        """Send the `chosen` entries, reset them here, and return the sum of all ranks' entries."""
        values = self.accumulated[chosen]
        self.accumulated[chosen] = 0.0
        self.velocity[chosen] = 0.0
        everyones_values = [torch.empty_like(values) for _ in range(self.ranks)]
        indices = chosen.to(torch.int32)
        everyones_indices = [torch.empty_like(indices) for _ in range(self.ranks)]
        dist.all_gather(everyones_values, values)
        dist.all_gather(everyones_indices, indices)
        self.sent_bytes = ENTRY_BYTES * len(chosen) * (self.ranks - 1)
        total = torch.zeros_like(self.accumulated)
        # One rank after another: no index occurs twice, so all ranks add in the same order.
        for where, what in zip(everyones_indices, everyones_values):
            total[where.long()] += what
        return total
