"""Skip-gram with negative sampling in PaddlePaddle (Mikolov et al. 2013, arXiv:1310.4546)."""

import paddle
from paddle import nn
from paddle.nn import functional


class SkipGram(nn.Layer):
    """The network: from a batch to the scores of a word's neighbour and of others."""

    def __init__(self, params):
        super().__init__()
        shape = params["vocabulary"], params["embedding_size"]
        # sparse: only the rows that a batch has touched travel to the servers.
        self.words = nn.Embedding(*shape, sparse=True)
        self.neighbours = nn.Embedding(*shape, sparse=True)

    def forward(self, batch):
        """Scores (n, 1 + negatives), the neighbour's first."""
        others = paddle.concat([batch["neighbour"], batch["negatives"]], axis=1)
        return (self.words(batch["word"]) * self.neighbours(others)).sum(2)


def model(params):
    """The network."""
    return SkipGram(params)


def loss(model, batch):
    """Equation 4 of the paper: logistic losses of all scores of a word, the mean over words."""
    scores = model(batch)
    neighbour, negatives = scores[:, :1], scores[:, 1:]
    losses = paddle.concat(
        [functional.softplus(-neighbour), functional.softplus(negatives)], axis=1
    )
    return losses.sum(1).mean()
