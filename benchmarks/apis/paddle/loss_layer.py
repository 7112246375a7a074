"""A network and its loss as one layer."""

import paddle


class Loss(paddle.nn.Layer):
    """The loss of a batch as a layer, which `to_static` compiles to a graph.

    PaddlePaddle 2 cannot compile a nested function: it does not find the names around it.
    """

    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch):
        """The loss."""
        return self.loss(self.model, batch)
