"""BERT's pre-training in MXNet's Gluon (Devlin et al. 2018, arXiv:1810.04805)."""

from mxnet import gluon
from mxnet.gluon import nn

EPSILON = 1e-12
"""Epsilon of the layer norms, as in the authors' code."""


def linear(width, out):
    """A fully connected layer over the last dimension."""
    return nn.Dense(out, flatten=False, in_units=width)


def norm(hidden):
    """A layer norm over the last dimension."""
    return nn.LayerNorm(epsilon=EPSILON, in_channels=hidden)


class Layer(nn.HybridBlock):
    """Self-attention and two fully connected layers; a layer norm follows each sum."""

    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.scale = heads, (hidden // heads) ** -0.5
        self.query_key_value = linear(hidden, 3 * hidden)
        self.attended = linear(hidden, hidden)
        self.norm1 = norm(hidden)
        self.widen = linear(hidden, 4 * hidden)
        self.gelu = nn.GELU()
        self.narrow = linear(4 * hidden, hidden)
        self.norm2 = norm(hidden)
        self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F, x):
        """From (n, length, hidden) to the same shape."""
        x = self.norm1(x + self.dropout(self.attended(self.attention(F, x))))
        return self.norm2(x + self.dropout(self.narrow(self.gelu(self.widen(x)))))

    def attention(self, F, x):
        """Return attention of all heads, concatenated: (n, length, hidden)."""
        # In a reshape 0 keeps a dimension, -2 all that follow, -3 merges two, -4 splits one in two.
        split = self.query_key_value(x).reshape((0, 0, 3, self.heads, -1))
        split = split.transpose((2, 0, 3, 1, 4)).reshape((0, -3, -2))
        # Each (n * heads, length, hidden / heads).
        query, key, value = F.split(split, 3, axis=0, squeeze_axis=True)
        scores = F.softmax(F.batch_dot(query, key, transpose_b=True) * self.scale)
        y = F.batch_dot(self.dropout(scores), value).reshape((-4, -1, self.heads, -2))
        return y.transpose((0, 2, 1, 3)).reshape((0, 0, -3))


class Bert(nn.HybridBlock):
    """The network, from a batch's inputs to logits of the masked tokens and the next sentence."""

    def __init__(self, params):
        super().__init__()
        hidden, dropout, vocabulary = params["hidden"], params["dropout"], params["vocabulary"]
        self.words = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(params["positions"], hidden)
        self.segments = nn.Embedding(2, hidden)
        self.norm = norm(hidden)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.HybridSequential()
        for _ in range(params["layers"]):
            self.layers.add(Layer(hidden, params["heads"], dropout))
        self.pooler = linear(hidden, hidden)
        self.next_sentence = linear(hidden, 2)
        self.transform = linear(hidden, hidden)
        self.gelu = nn.GELU()
        self.transform_norm = norm(hidden)
        # The decoder is the transposed embedding of words.
        self.decoder = nn.Dense(
            vocabulary, use_bias=False, flatten=False, in_units=hidden, params=self.words.params
        )
        self.vocabulary_bias = self.params.get("vocabulary_bias", shape=(vocabulary,), init="zeros")

    def hybrid_forward(self, F, tokens, segments, masked_positions, vocabulary_bias):
        """Logits (n, predictions, vocabulary) and (n, 2)."""
        positions = self.positions(F.contrib.arange_like(tokens, axis=1))
        x = F.broadcast_add(self.words(tokens) + self.segments(segments), positions.expand_dims(0))
        x = self.layers(self.dropout(self.norm(x)))
        rows = F.contrib.arange_like(masked_positions, axis=0).expand_dims(1)
        rows = F.broadcast_like(rows, masked_positions)
        masked = F.gather_nd(x, F.stack(rows, masked_positions))
        masked = self.transform_norm(self.gelu(self.transform(masked)))
        words = F.broadcast_add(self.decoder(masked), vocabulary_bias)
        first = F.slice_axis(x, axis=1, begin=0, end=1).reshape((0, -1))
        return words, self.next_sentence(F.tanh(self.pooler(first)))


def model(params):
    """The network."""
    return Bert(params)


def loss(model, batch):
    """Mean cross-entropy of the masked tokens, and that of the next sentence."""
    words, next_sentence = model(batch["tokens"], batch["segments"], batch["masked_positions"])
    cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()
    masked = cross_entropy(words, batch["masked_tokens"]).mean()
    return masked + cross_entropy(next_sentence, batch["next_sentence"]).mean()
