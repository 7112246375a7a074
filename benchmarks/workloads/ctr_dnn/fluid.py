"""CTR-DNN in Fluid, as a static graph."""

from paddle.fluid import embedding, layers


def model(params):
    """The network: a function from a batch's inputs to the probabilities of no click and click."""
    shape = [params["vocabulary"], params["embedding_size"]]

    def connected(x, width, activation, name):
        weight, bias = name + ".weight", name + ".bias"
        return layers.fc(x, width, act=activation, param_attr=weight, bias_attr=bias)

    def probabilities(batch):
        # is_sparse: only the rows that a batch uses are sent to the servers.
        rows = [
            embedding(batch["slot{}".format(i)], shape, is_sparse=True, param_attr="table.weight")
            for i in range(params["sparse_slots"])
        ]
        x = [layers.reshape(row, [-1, params["embedding_size"]]) for row in rows]
        x = layers.concat([*x, batch["dense"]], axis=1)
        for number, width in enumerate(params["hidden"]):
            x = connected(x, width, "relu", "hidden.{}".format(number))
        return connected(x, 2, "softmax", "click")

    return probabilities


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    return layers.mean(layers.cross_entropy(model(batch), batch["label"]))
