"""BERT's pre-training in PyTorch (Devlin et al. 2018, arXiv:1810.04805)."""

import torch
from attention import by_heads
from torch import nn
from torch.nn import functional

EPSILON = 1e-12
"""Epsilon of the layer norms, as in the authors' code."""


class Layer(nn.Module):
    """Self-attention and two fully connected layers; a layer norm follows each sum."""

    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.attended = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden, EPSILON)
        self.widen = nn.Linear(hidden, 4 * hidden)
        self.narrow = nn.Linear(4 * hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden, EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        """From (n, length, hidden) to the same shape."""
        x = self.norm1(x + self.dropout(self.attended(self.attention(x))))
        return self.norm2(x + self.dropout(self.narrow(functional.gelu(self.widen(x)))))

    def attention(self, x):
        """Return attention of all heads, concatenated: (n, length, hidden)."""
        split = self.query_key_value(x).unflatten(2, (3, self.heads, -1))
        query, key, value = split.unbind(2)  # each (n, length, heads, hidden / heads)
        dropout = self.dropout.p if self.training else 0.0
        attend = functional.scaled_dot_product_attention
        return by_heads(attend, query, key, value, dropout_p=dropout).flatten(2)


class Bert(nn.Module):
    """The network, from a batch to logits of the masked tokens and of the next sentence."""

    def __init__(self, params):
        super().__init__()
        hidden, dropout = params["hidden"], params["dropout"]
        self.words = nn.Embedding(params["vocabulary"], hidden)
        self.positions = nn.Embedding(params["positions"], hidden)
        self.segments = nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, EPSILON)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(
            *(Layer(hidden, params["heads"], dropout) for _ in range(params["layers"]))
        )
        self.pooler = nn.Linear(hidden, hidden)
        self.next_sentence = nn.Linear(hidden, 2)
        self.transform = nn.Linear(hidden, hidden)
        self.transform_norm = nn.LayerNorm(hidden, EPSILON)
        self.vocabulary_bias = nn.Parameter(torch.zeros(params["vocabulary"]))

    def forward(self, batch):
        """Logits (n, predictions, vocabulary) and (n, 2)."""
        tokens = batch["tokens"]
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        x = self.layers(self.dropout(self.norm(x + self.segments(batch["segments"]))))
        masked = torch.take_along_dim(x, batch["masked_positions"].unsqueeze(2), 1)
        masked = self.transform_norm(functional.gelu(self.transform(masked)))
        # The decoder is the transposed embedding of words.
        words = functional.linear(masked, self.words.weight, self.vocabulary_bias)
        return words, self.next_sentence(torch.tanh(self.pooler(x[:, 0])))


def model(params):
    """The network."""
    return Bert(params)


def loss(model, batch):
    """Mean cross-entropy of the masked tokens, and that of the next sentence."""
    words, next_sentence = model(batch)
    masked = functional.cross_entropy(words.flatten(0, 1), batch["masked_tokens"].flatten())
    return masked + functional.cross_entropy(next_sentence, batch["next_sentence"])
