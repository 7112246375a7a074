"""GPT-2's pre-training in PyTorch (Radford et al. 2019)."""

from attention import by_heads
from torch import nn
from torch.nn import functional
from workloads.gpt2.data import EPSILON
from workloads.llama.pytorch import loss

__all__ = ["loss", "model"]


class Layer(nn.Module):
    """Self-attention and two fully connected layers; each is added to its input."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden, EPSILON)
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.attended = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden, EPSILON)
        self.widen = nn.Linear(hidden, 4 * hidden)
        self.narrow = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        """From (n, length, hidden) to the same shape."""
        x = x + self.attended(self.attention(self.norm1(x)))
        y = functional.gelu(self.widen(self.norm2(x)), approximate="tanh")
        return x + self.narrow(y)

    def attention(self, x):
        """Return causal attention of all heads, concatenated: (n, length, hidden)."""
        split = self.query_key_value(x).unflatten(2, (3, self.heads, -1))
        query, key, value = split.unbind(2)  # each (n, length, heads, hidden / heads)
        attend = functional.scaled_dot_product_attention
        return by_heads(attend, query, key, value, is_causal=True).flatten(2)


class Gpt2(nn.Module):
    """The network, from tokens (n, length) to logits (n, length, vocabulary)."""

    def __init__(self, params):
        super().__init__()
        hidden = params["hidden"]
        self.words = nn.Embedding(params["vocabulary"], hidden)
        self.positions = nn.Embedding(params["positions"], hidden)
        self.layers = nn.Sequential(
            *(Layer(hidden, params["heads"]) for _ in range(params["layers"]))
        )
        self.norm = nn.LayerNorm(hidden, EPSILON)

    def forward(self, tokens):
        """Return the logits of the next tokens."""
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        return functional.linear(self.norm(self.layers(x)), self.words.weight)


def model(params):
    """The network."""
    return Gpt2(params)
