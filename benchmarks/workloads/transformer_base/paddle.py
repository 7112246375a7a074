"""The Transformer in PaddlePaddle (Vaswani et al. 2017, arXiv:1706.03762)."""

import numpy
import paddle
from paddle import nn
from paddle.nn import functional
from workloads.transformer_base.data import LABEL_SMOOTHING, PADDING, positions

UNSEEN = -1e9
"""Value added to the scores of masked positions."""


class Attention(nn.Layer):
    """Attention of several heads (no biases), added to its input, and a layer norm."""

    def __init__(self, params):
        super().__init__()
        hidden = params["hidden"]
        self.heads = params["heads"]
        self.query = nn.Linear(hidden, hidden, bias_attr=False)
        self.key_value = nn.Linear(hidden, 2 * hidden, bias_attr=False)
        self.attended = nn.Linear(hidden, hidden, bias_attr=False)
        self.norm = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(params["dropout"])

    def forward(self, x, memory, unseen):
        """Return attention of x (n, length, hidden) to `memory`, where `unseen` is 0."""
        n, length, hidden = x.shape
        query = self.query(x).reshape([n, length, self.heads, -1]).transpose([0, 2, 1, 3])
        split = self.key_value(memory).reshape([n, length, 2, self.heads, -1])
        key, value = split.transpose([2, 0, 3, 1, 4])  # each (n, heads, length, hidden / heads)
        scores = paddle.matmul(query * query.shape[-1] ** -0.5, key, transpose_y=True) + unseen
        y = paddle.matmul(functional.softmax(scores), value).transpose([0, 2, 1, 3])
        return self.norm(x + self.dropout(self.attended(y.reshape([n, length, hidden]))))


class Inner(nn.Layer):
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


class Transformer(nn.Layer):
    """The network, from sentences (n, length) to logits (n, length, vocabulary)."""

    def __init__(self, params):
        super().__init__()
        length = params["sequence_length"]

        def layers(*attentions):
            return nn.LayerList(
                [
                    nn.LayerDict(
                        {
                            **{name: Attention(params) for name in attentions},
                            "inner": Inner(params),
                        }
                    )
                    for _ in range(params["layers"])
                ]
            )

        self.scale = params["hidden"] ** 0.5
        self.words = nn.Embedding(params["vocabulary"], params["hidden"])
        self.encoder = layers("own")
        self.decoder = layers("own", "source")
        self.dropout = nn.Dropout(params["dropout"])
        self.register_buffer("positions", paddle.to_tensor(positions(params)))
        later = numpy.triu(numpy.full((length, length), UNSEEN, "float32"), 1)
        self.register_buffer("later", paddle.to_tensor(later))

    def embed(self, tokens):
        """Return scaled embeddings plus position embeddings."""
        return self.dropout(self.words(tokens) * self.scale + self.positions)

    def forward(self, source, target):
        """Return logits of the word after each word of the target."""
        padding = (source == PADDING).astype("float32").unsqueeze([1, 2]) * UNSEEN
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer["inner"](layer["own"](memory, memory, padding))
        x = self.embed(target)
        for layer in self.decoder:
            # Padding is at the end, so words that attend only to earlier words never see it.
            x = layer["source"](layer["own"](x, x, self.later), memory, padding)
            x = layer["inner"](x)
        return paddle.matmul(x, self.words.weight, transpose_y=True)


def model(params):
    """The network."""
    return Transformer(params)


def loss(model, batch):
    """Mean cross-entropy of words that are not padding, against smoothed labels."""
    logits = model(batch["source"], batch["target"])
    labels = functional.one_hot(batch["labels"], logits.shape[-1])
    labels = functional.label_smooth(labels, epsilon=LABEL_SMOOTHING)
    each = functional.cross_entropy(logits, labels, soft_label=True, reduction="none").squeeze(-1)
    words = (batch["labels"] != PADDING).astype("float32")
    return (each * words).sum() / words.sum()
