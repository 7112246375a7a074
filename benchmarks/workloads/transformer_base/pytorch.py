"""The Transformer in PyTorch (Vaswani et al. 2017, arXiv:1706.03762)."""

import torch
from attention import by_heads
from torch import nn
from torch.nn import functional
from workloads.transformer_base.data import LABEL_SMOOTHING, PADDING, positions


class Attention(nn.Module):
    """Attention of several heads (no biases), added to its input, and a layer norm."""

    def __init__(self, params):
        super().__init__()
        hidden = params["hidden"]
        self.heads = params["heads"]
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key_value = nn.Linear(hidden, 2 * hidden, bias=False)
        self.attended = nn.Linear(hidden, hidden, bias=False)
        self.norm = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(params["dropout"])

    def forward(self, x, memory, seen=None):
        """Return attention of x (n, length, hidden) to `memory` if `seen`, otherwise causal."""
        query = self.query(x).unflatten(2, (self.heads, -1))
        key, value = self.key_value(memory).unflatten(2, (2, self.heads, -1)).unbind(2)
        attend = functional.scaled_dot_product_attention
        y = by_heads(attend, query, key, value, attn_mask=seen, is_causal=seen is None)
        return self.norm(x + self.dropout(self.attended(y.flatten(2))))


class Inner(nn.Module):
    """Two fully connected layers, added to their input, and a layer norm."""

    def __init__(self, params):
        super().__init__()
        self.widen = nn.Linear(params["hidden"], params["inner"])
        self.narrow = nn.Linear(params["inner"], params["hidden"])
        self.norm = nn.LayerNorm(params["hidden"])
        self.dropout = nn.Dropout(params["dropout"])

    def forward(self, x):
        """From (n, length, hidden) to the same shape."""
        return self.norm(x + self.dropout(self.narrow(functional.relu(self.widen(x)))))


class Transformer(nn.Module):
    """The network, from sentences (n, length) to logits (n, length, vocabulary)."""

    def __init__(self, params):
        super().__init__()

        def layers(*attentions):
            return nn.ModuleList(
                nn.ModuleDict(
                    {**{each: Attention(params) for each in attentions}, "inner": Inner(params)}
                )
                for _ in range(params["layers"])
            )

        self.scale = params["hidden"] ** 0.5
        self.words = nn.Embedding(params["vocabulary"], params["hidden"])
        self.encoder = layers("own")
        self.decoder = layers("own", "source")
        self.dropout = nn.Dropout(params["dropout"])
        self.register_buffer("positions", torch.from_numpy(positions(params)))

    def embed(self, tokens):
        """Return scaled embeddings plus position embeddings."""
        return self.dropout(self.words(tokens) * self.scale + self.positions)

    def forward(self, source, target):
        """Return logits of the word after each word of the target."""
        seen = (source != PADDING)[:, None, None, :]
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer["inner"](layer["own"](memory, memory, seen))
        x = self.embed(target)
        for layer in self.decoder:
            # Padding is at the end, so words that attend only to earlier words never see it.
            x = layer["source"](layer["own"](x, x), memory, seen)
            x = layer["inner"](x)
        return functional.linear(x, self.words.weight)


def model(params):
    """The network."""
    return Transformer(params)


def loss(model, batch):
    """Mean cross-entropy of words that are not padding, against smoothed labels."""
    logits = model(batch["source"], batch["target"])
    return functional.cross_entropy(
        logits.flatten(0, 1),
        batch["labels"].flatten(),
        ignore_index=PADDING,
        label_smoothing=LABEL_SMOOTHING,
    )
