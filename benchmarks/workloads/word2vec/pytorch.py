"""Skip-gram with negative sampling in PyTorch (Mikolov et al. 2013, arXiv:1310.4546)."""

import torch
from torch import nn
from torch.nn import functional


class SkipGram(nn.Module):
    """The network: from a batch to the scores of a word's neighbour and of others."""

    def __init__(self, params):
        super().__init__()
        shape = params["vocabulary"], params["embedding_size"]
        # sparse: with servers, only the rows that a batch uses are sent.
        self.words = nn.Embedding(*shape, sparse=True)
        self.neighbours = nn.Embedding(*shape, sparse=True)

    def forward(self, batch):
        """Scores (n, 1 + negatives), the neighbour's first."""
        others = torch.cat([batch["neighbour"], batch["negatives"]], dim=1)
        return (self.words(batch["word"]) * self.neighbours(others)).sum(2)


def model(params):
    """The network."""
    return SkipGram(params)


def loss(model, batch):
    """Equation 4 of the paper: logistic losses of all scores of a word, the mean over words."""
    scores = model(batch)
    neighbour, negatives = scores[:, :1], scores[:, 1:]
    losses = torch.cat([functional.softplus(-neighbour), functional.softplus(negatives)], dim=1)
    return losses.sum(1).mean()
