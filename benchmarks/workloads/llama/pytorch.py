"""Llama's pre-training in PyTorch (Grattafiori et al. 2024, arXiv:2407.21783)."""

import torch
from attention import by_heads
from torch import nn
from torch.nn import functional
from workloads.llama.data import EPSILON, rotations


def rotate(x, table):
    """Rotate each head (n, length, heads, size) by the angles of its positions."""
    first, second = x.chunk(2, -1)
    cosines, sines = table.unsqueeze(2)
    rotated = (first * cosines - second * sines, second * cosines + first * sines)
    return torch.cat(rotated, dim=-1).type_as(x)


class Attending(nn.Module):
    """A layer's self-attention, and the norm of the block after it."""

    def __init__(self, params):
        super().__init__()
        hidden = params["hidden"]
        self.size = hidden // params["heads"]
        self.attend = functional.scaled_dot_product_attention
        shared = self.size * params["key_value_heads"]
        self.norm1 = nn.RMSNorm(hidden, EPSILON)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, shared, bias=False)
        self.value = nn.Linear(hidden, shared, bias=False)
        self.attended = nn.Linear(hidden, hidden, bias=False)
        self.norm2 = nn.RMSNorm(hidden, EPSILON)

    def attend_to(self, x, table):
        """Return the input plus the attention of its norm: (n, length, hidden)."""
        return x + self.attended(self.attention(self.norm1(x), table))

    def attention(self, x, table):
        """Return causal attention of all heads, concatenated: (n, length, hidden)."""
        query, key, value = (
            project(x).unflatten(2, (-1, self.size))
            for project in (self.query, self.key, self.value)
        )
        heads = (rotate(query, table), rotate(key, table), value)
        return by_heads(self.attend, *heads, is_causal=True, enable_gqa=True).flatten(2)


class Layer(Attending):
    """Self-attention and SwiGLU; each takes a norm of its input and is added to it."""

    def __init__(self, params):
        super().__init__(params)
        hidden, inner = params["hidden"], params["inner"]
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.widen = nn.Linear(hidden, inner, bias=False)
        self.narrow = nn.Linear(inner, hidden, bias=False)

    def forward(self, x, table):
        """From (n, length, hidden) to the same shape."""
        x = self.attend_to(x, table)
        y = self.norm2(x)
        return x + self.narrow(functional.silu(self.gate(y)) * self.widen(y))


class Llama(nn.Module):
    """The network, from tokens (n, length) to logits (n, length, vocabulary)."""

    def __init__(self, params, layer=Layer):
        super().__init__()
        hidden, vocabulary = params["hidden"], params["vocabulary"]
        self.words = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(layer(params) for _ in range(params["layers"]))
        self.norm = nn.RMSNorm(hidden, EPSILON)
        self.logits = None if params["tied"] else nn.Linear(hidden, vocabulary, bias=False)
        self.register_buffer("rotations", torch.from_numpy(rotations(params)))

    def forward(self, x):
        """Return logits of the next tokens; a pipeline stage lacks some of these modules."""
        x = self.words(x) if self.words else x
        for layer in self.layers:
            x = layer(x, self.rotations)
        return self.logits_of(x) if self.norm else x

    def logits_of(self, x):
        """Compute the part after the layers."""
        x = self.norm(x)
        return self.logits(x) if self.logits else functional.linear(x, self.words.weight)


def model(params):
    """The network."""
    return Llama(params)


def loss(model, batch):
    """Return the mean cross-entropy of the next tokens."""
    return cross_entropy(model(batch["tokens"]), batch)


def cross_entropy(logits, batch):
    """Return the mean cross-entropy over all tokens."""
    return functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
