"""Mixtral's pre-training in PaddlePaddle (Jiang et al. 2024, arXiv:2401.04088)."""

import paddle
from paddle import nn
from paddle.nn import functional
from workloads.llama.paddle import Attending, Llama, cross_entropy
from workloads.mixtral.data import BALANCE, balance


class Matrices(nn.Layer):
    """A matrix (in, out) of each expert."""

    def __init__(self, *shape):
        super().__init__()
        self.weight = self.create_parameter(list(shape))


class Layer(Attending):
    """Self-attention, then the SwiGLU of the experts that a router chooses for each token."""

    def __init__(self, params):
        super().__init__(params)
        hidden, inner, experts = (params[name] for name in ("hidden", "inner", "experts"))
        self.active = params["active_experts"]
        self.router = nn.Linear(hidden, experts, bias_attr=False)
        self.gate = Matrices(experts, hidden, inner)
        self.widen = Matrices(experts, hidden, inner)
        self.narrow = Matrices(experts, inner, hidden)

    def forward(self, x, table):
        """From (n, length, hidden) to the same shape, `balance` and tokens of each expert."""
        x = self.attend_to(x, table)
        y = self.norm2(x)
        likely = functional.softmax(self.router(y).astype("float32"))
        weights, chosen = likely.topk(self.active)
        weights = weights / weights.sum(-1, keepdim=True)
        counts = functional.one_hot(chosen, likely.shape[-1]).sum([1, 2])
        # Rows by expert: each token stands there once for each of its own.
        order = chosen.flatten().argsort(stable=True)
        rows = self.swiglu(y.flatten(0, 1)[order // self.active], counts.sum(0))
        rows = rows[order.argsort()].reshape([*chosen.shape, -1]) * weights.unsqueeze(-1)
        return x + rows.sum(2).astype(y.dtype), balance(likely, counts), counts.sum(0)

    def swiglu(self, rows, counts):
        """Of rows (rows, hidden) by expert, of which each has so many: no token is dropped."""
        made, begin = [], 0
        # Slices would have gradients of the whole size, one for each expert.
        matrices = zip(*(each.weight.unbind(0) for each in (self.gate, self.widen, self.narrow)))
        for count, (gate, widen, narrow) in zip(counts.astype("int64").tolist(), matrices):
            part, begin = rows[begin : begin + count], begin + count
            made.append(functional.silu(part @ gate) * (part @ widen) @ narrow)
        return paddle.concat(made)


class Mixtral(Llama):
    """Llama with experts: logits, the mean of `balance`, tokens by layer and expert."""

    def __init__(self, params):
        super().__init__(params, Layer)

    def forward(self, tokens):
        """From tokens (n, length)."""
        x = self.words(tokens)
        balances, counts = [], []
        for layer in self.layers:
            x, balanced, count = layer(x, self.rotations)
            balances.append(balanced)
            counts.append(count)
        return self.logits_of(x), paddle.stack(balances).mean(), paddle.stack(counts)


def model(params):
    """The network."""
    return Mixtral(params)


def loss(model, batch):
    """Mean cross-entropy of the tokens that follow, and what balances experts."""
    logits, balanced, _ = model(batch["tokens"])
    return cross_entropy(logits, batch) + BALANCE * balanced


def tokens_per_expert(model, batch):
    """Tokens of a batch by layer and expert."""
    return model(batch["tokens"])[2]
