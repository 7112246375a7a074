"""Mixtral's pre-training in PyTorch (Jiang et al. 2024, arXiv:2401.04088): Llama with experts."""

import torch
from torch import nn
from torch.nn import functional
from workloads.llama.pytorch import Attending, Llama, cross_entropy
from workloads.mixtral.data import BALANCE, balance


class Matrices(nn.Module):
    """A matrix (in, out) of each expert."""

    def __init__(self, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))


class Layer(Attending):
    """Self-attention, then the SwiGLU of the experts that a router chooses for each token."""

    def __init__(self, params):
        super().__init__(params)
        hidden, inner, experts = (params[name] for name in ("hidden", "inner", "experts"))
        self.active = params["active_experts"]
        self.router = nn.Linear(hidden, experts, bias=False)
        self.gate = Matrices(experts, hidden, inner)
        self.widen = Matrices(experts, hidden, inner)
        self.narrow = Matrices(experts, inner, hidden)

    def forward(self, x, table):
        """Return output (n, length, hidden), balance loss, and tokens per expert."""
        x = self.attend_to(x, table)
        y = self.norm2(x)
        likely = self.router(y).float().softmax(-1)
        weights, chosen = likely.topk(self.active)
        weights = weights / weights.sum(-1, keepdim=True)
        counts = functional.one_hot(chosen, likely.shape[-1]).sum((1, 2))
        # Rows ordered by expert: each token has one row for each of its experts.
        order = chosen.flatten().argsort(stable=True)
        rows = self.swiglu(y.flatten(0, 1)[order // self.active], counts.sum(0))
        rows = rows[order.argsort()].unflatten(0, chosen.shape) * weights[..., None]
        return x + rows.sum(2).type_as(y), balance(likely, counts), counts.sum(0)

    def swiglu(self, rows, counts):
        """Run the experts on rows (rows, hidden), sorted by expert; no token is dropped."""
        matrices = zip(*(each.weight.unbind(0) for each in (self.gate, self.widen, self.narrow)))
        return torch.cat(
            [
                (functional.silu(part @ gate) * (part @ widen)) @ narrow
                for part, (gate, widen, narrow) in zip(rows.split(counts.tolist()), matrices)
            ]
        )


class Mixtral(Llama):
    """Llama with experts: logits, the mean of `balance`, tokens by layer and expert."""

    def __init__(self, params):
        super().__init__(params, Layer)

    def forward(self, x):
        """From tokens (n, length)."""
        x = self.words(x)
        balances, counts = [], []
        for layer in self.layers:
            x, balanced, count = layer(x, self.rotations)
            balances.append(balanced)
            counts.append(count)
        return self.logits_of(x), torch.stack(balances).mean(), torch.stack(counts)


def model(params):
    """The network."""
    return Mixtral(params)


def loss(model, batch):
    """Return the mean cross-entropy of the next tokens, plus the load-balancing loss."""
    logits, balanced, _ = model(batch["tokens"])
    return cross_entropy(logits, batch) + BALANCE * balanced


def tokens_per_expert(model, batch):
    """Return the number of a batch's tokens by layer and expert."""
    return model(batch["tokens"])[2]
