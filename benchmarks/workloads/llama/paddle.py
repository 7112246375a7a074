"""Llama's pre-training in PaddlePaddle (Grattafiori et al. 2024, arXiv:2407.21783)."""

import paddle
from paddle import nn
from paddle.nn import functional
from workloads.llama.data import EPSILON, rotations


class RMSNorm(nn.Layer):
    """An RMSNorm over the last dimension, in float32: rms_norm has no kernel for CPUs."""

    def __init__(self, hidden):
        super().__init__()
        ones = nn.initializer.Constant(1.0)
        self.weight = self.create_parameter([hidden], default_initializer=ones)

    def forward(self, x):
        """From (n, length, hidden) to the same shape."""
        y = x.astype("float32")
        y = y * paddle.rsqrt(y.square().mean(-1, keepdim=True) + EPSILON)
        return (y * self.weight).astype(x.dtype)


def rotate(x, table):
    """Each head (n, length, heads, size) by the angles of its positions."""
    first, second = x.chunk(2, axis=-1)
    cosines, sines = table.unsqueeze(2)
    rotated = (first * cosines - second * sines, second * cosines + first * sines)
    return paddle.concat(rotated, axis=-1).astype(x.dtype)


class Attending(nn.Layer):
    """The first half of a layer, and the norm that the second takes."""

    def __init__(self, params):
        super().__init__()
        hidden = params["hidden"]
        self.size = hidden // params["heads"]
        shared = self.size * params["key_value_heads"]
        self.norm1 = RMSNorm(hidden)
        self.query = nn.Linear(hidden, hidden, bias_attr=False)
        self.key = nn.Linear(hidden, shared, bias_attr=False)
        self.value = nn.Linear(hidden, shared, bias_attr=False)
        self.attended = nn.Linear(hidden, hidden, bias_attr=False)
        self.norm2 = RMSNorm(hidden)

    def attend_to(self, x, table):
        """Self-attention of a norm of the input, which is added to it."""
        return x + self.attended(self.attention(self.norm1(x), table))

    def attention(self, x, table):
        """All heads, side by side, each up to its own place: (n, length, hidden)."""
        n, length, _ = x.shape
        query, key, value = (
            project(x).reshape([n, length, -1, self.size])
            for project in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(
            rotate(query, table), rotate(key, table), value, is_causal=True, training=self.training
        )
        return y.reshape([n, length, -1])


class Layer(Attending):
    """Self-attention and SwiGLU; each takes a norm of its input and is added to it."""

    def __init__(self, params):
        super().__init__(params)
        hidden, inner = params["hidden"], params["inner"]
        self.gate = nn.Linear(hidden, inner, bias_attr=False)
        self.widen = nn.Linear(hidden, inner, bias_attr=False)
        self.narrow = nn.Linear(inner, hidden, bias_attr=False)

    def forward(self, x, table):
        """From (n, length, hidden) to the same shape."""
        x = self.attend_to(x, table)
        y = self.norm2(x)
        return x + self.narrow(functional.silu(self.gate(y)) * self.widen(y))


class Llama(nn.Layer):
    """The network, from tokens (n, length) to logits (n, length, vocabulary)."""

    def __init__(self, params, layer=Layer):
        super().__init__()
        hidden, vocabulary = params["hidden"], params["vocabulary"]
        self.words = nn.Embedding(vocabulary, hidden)
        self.layers = nn.LayerList(layer(params) for _ in range(params["layers"]))
        self.norm = RMSNorm(hidden)
        self.logits = None if params["tied"] else nn.Linear(hidden, vocabulary, bias_attr=False)
        self.register_buffer("rotations", paddle.to_tensor(rotations(params)))

    def forward(self, tokens):
        """Logits of the token that follows each."""
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, self.rotations)
        return self.logits_of(x)

    def logits_of(self, x):
        """Of what the last layer hands on."""
        x = self.norm(x)
        if self.logits is None:
            return paddle.matmul(x, self.words.weight, transpose_y=True)
        return self.logits(x)


def model(params):
    """The network."""
    return Llama(params)


def loss(model, batch):
    """Mean cross-entropy of the tokens that follow."""
    return cross_entropy(model(batch["tokens"]), batch)


def cross_entropy(logits, batch):
    """Mean over all tokens."""
    return functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
