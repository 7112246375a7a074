"""Two layers beside each other in Fluid."""

from paddle.fluid import layers


def model(params):
    """The network: from a batch's inputs to outputs (n, 16)."""

    def outputs(batch):
        names = ("a.weight", "b.weight")
        both = [layers.fc(batch["x"], 8, param_attr=name, bias_attr=False) for name in names]
        return layers.concat(both, axis=1)

    return outputs


def loss(model, batch):
    """Mean over the batch of the sum of all outputs."""
    return layers.mean(layers.reduce_sum(model(batch), dim=1))
