"""CTR-DNN in MXNet's Gluon."""

from mxnet import gluon, nd
from mxnet.gluon import contrib, nn


class CtrDnn(nn.Block):
    """The network: from a batch's inputs to the logits of no click and click."""

    def __init__(self, params):
        super().__init__()
        self.slots = ["slot{}".format(i) for i in range(params["sparse_slots"])]
        size = params["embedding_size"]
        # Sparse weight and gradient: only rows that a batch uses are sent, in both directions.
        self.table = contrib.nn.SparseEmbedding(params["vocabulary"], size)
        widths = [len(self.slots) * size + params["dense_features"], *params["hidden"]]
        self.hidden = nn.HybridSequential()
        for width, out in zip(widths, widths[1:]):
            self.hidden.add(nn.Dense(out, activation="relu", in_units=width))
        self.click = nn.Dense(2, in_units=widths[-1])

    def forward(self, batch):
        """Logits (n, 2)."""
        rows = self.table(nd.concat(*[batch[slot] for slot in self.slots], dim=1))
        x = nd.concat(rows.flatten(), batch["dense"], dim=1)
        return self.click(self.hidden(x))


def model(params):
    """The network."""
    return CtrDnn(params)


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    return gluon.loss.SoftmaxCrossEntropyLoss()(model(batch), batch["label"]).mean()
