"""CTR-DNN in PaddlePaddle; it runs eagerly and builds a static graph alike."""

import paddle
from paddle import nn
from paddle.nn import functional


class CtrDnn(nn.Layer):
    """The network: from a batch's inputs to the logits of no click and click."""

    def __init__(self, params):
        super().__init__()
        self.slots = ["slot{}".format(i) for i in range(params["sparse_slots"])]
        size = params["embedding_size"]
        # sparse: only the rows that a batch uses are sent to the servers.
        self.table = nn.Embedding(params["vocabulary"], size, sparse=True)
        widths = [len(self.slots) * size + params["dense_features"], *params["hidden"]]
        self.hidden = nn.LayerList([nn.Linear(*pair) for pair in zip(widths, widths[1:])])
        self.click = nn.Linear(widths[-1], 2)

    def forward(self, batch):
        """Logits (n, 2)."""
        rows = [self.table(batch[slot]).flatten(1) for slot in self.slots]
        x = paddle.concat([*rows, batch["dense"]], axis=1)
        for layer in self.hidden:
            x = functional.relu(layer(x))
        return self.click(x)


def model(params):
    """The network."""
    return CtrDnn(params)


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    return functional.cross_entropy(model(batch), batch["label"])
