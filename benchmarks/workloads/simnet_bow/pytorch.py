"""SimNet-BOW in PyTorch: how well titles answer a query, by bags of words."""

from torch import nn
from torch.nn import functional

MARGIN = 0.1
"""Minimum difference of cosines by which a title that answers must be nearer."""


class SimNetBow(nn.Module):
    """The network: from a batch to the cosines of a query with either title."""

    def __init__(self, params):
        super().__init__()
        size, hidden = params["embedding_size"], params["hidden"]
        # sparse: with servers, only the rows that a batch uses are sent.
        self.words = nn.Embedding(params["vocabulary"], size, sparse=True)
        self.query = nn.Linear(size, hidden)
        self.title = nn.Linear(size, hidden)

    def bag(self, words):
        """One vector (n, size) for all words of a text."""
        return functional.softsign(self.words(words).sum(1))

    def forward(self, batch):
        """Two cosines (n): of the title that answers, and of the other."""
        query = self.query(self.bag(batch["query"]))
        titles = (self.title(self.bag(batch[name])) for name in ("answer", "other"))
        return [functional.cosine_similarity(query, title) for title in titles]


def model(params):
    """The network."""
    return SimNetBow(params)


def loss(model, batch):
    """Mean hinge loss of a batch."""
    answer, other = model(batch)
    return functional.relu(MARGIN - answer + other).mean()
