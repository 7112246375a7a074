"""BERT's pre-training in MindSpore (Devlin et al. 2018, arXiv:1810.04805)."""

import mindspore
from mindspore import nn, ops

EPSILON = 1e-12
"""Epsilon of the layer norms, as in the authors' code."""


def norm(hidden):
    """A layer norm over the last dimension."""
    return nn.LayerNorm((hidden,), epsilon=EPSILON)


class Layer(nn.Cell):
    """Self-attention and two fully connected layers; a layer norm follows each sum."""

    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Dense(hidden, 3 * hidden)
        self.attended = nn.Dense(hidden, hidden)
        self.norm1 = norm(hidden)
        self.widen = nn.Dense(hidden, 4 * hidden)
        self.narrow = nn.Dense(4 * hidden, hidden)
        self.norm2 = norm(hidden)
        self.dropout = nn.Dropout(p=dropout)

    def construct(self, x):
        """From (n, length, hidden) to the same shape."""
        x = self.norm1(x + self.dropout(self.attended(self.attention(x))))
        return self.norm2(x + self.dropout(self.narrow(ops.gelu(self.widen(x)))))

    def attention(self, x):
        """Return attention of all heads, concatenated: (n, length, hidden)."""
        n, length, hidden = x.shape
        split = self.query_key_value(x).reshape((n, length, 3, self.heads, -1))
        query, key, value = split.transpose((2, 0, 3, 1, 4))  # each (n, heads, length, ...)
        scores = ops.matmul(query, key.swapaxes(2, 3)) * (hidden // self.heads) ** -0.5
        y = ops.matmul(self.dropout(ops.softmax(scores)), value)
        return y.swapaxes(1, 2).reshape(x.shape)


class Bert(nn.Cell):
    """The network, from a batch to logits of the masked tokens and of the next sentence."""

    def __init__(self, params):
        super().__init__()
        hidden, dropout, vocabulary = params["hidden"], params["dropout"], params["vocabulary"]
        self.words = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(params["positions"], hidden)
        self.segments = nn.Embedding(2, hidden)
        self.norm = norm(hidden)
        self.dropout = nn.Dropout(p=dropout)
        self.layers = nn.SequentialCell(
            *(Layer(hidden, params["heads"], dropout) for _ in range(params["layers"]))
        )
        self.pooler = nn.Dense(hidden, hidden)
        self.next_sentence = nn.Dense(hidden, 2)
        self.transform = nn.Dense(hidden, hidden)
        self.transform_norm = norm(hidden)
        self.vocabulary_bias = mindspore.Parameter(ops.zeros(vocabulary), "vocabulary_bias")

    def construct(self, tokens, segments, masked_positions):
        """Logits (n, predictions, vocabulary) and (n, 2)."""
        x = self.words(tokens) + self.positions.embedding_table[: tokens.shape[1]]
        x = self.layers(self.dropout(self.norm(x + self.segments(segments))))
        masked = ops.gather(x, masked_positions, 1, batch_dims=1)
        masked = self.transform_norm(ops.gelu(self.transform(masked)))
        # The decoder is the transposed embedding of words.
        words = ops.matmul(masked, self.words.embedding_table.T) + self.vocabulary_bias
        return words, self.next_sentence(ops.tanh(self.pooler(x[:, 0])))


def model(params):
    """The network."""
    return Bert(params)


def loss(model, batch):
    """Mean cross-entropy of the masked tokens, and that of the next sentence."""
    words, next_sentence = model(batch["tokens"], batch["segments"], batch["masked_positions"])
    words = words.reshape((-1, words.shape[-1]))
    masked = ops.cross_entropy(words, batch["masked_tokens"].reshape(-1))
    return masked + ops.cross_entropy(next_sentence, batch["next_sentence"])
