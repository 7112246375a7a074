"""The Transformer in PaddlePaddle: `pytorch.py` under its names."""

from apis.paddle.torch_names import network_of

_network = network_of(__file__)
model, loss = _network.model, _network.loss
