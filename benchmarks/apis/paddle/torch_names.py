"""PyTorch's names for PaddlePaddle: a network that both write alike stands in `pytorch.py` alone.

A workload whose network needs more than other names has a `paddle.py` of its own.
"""

import importlib.util
import os
import sys
import types

import paddle
from paddle import nn
from paddle.nn import functional

_networks, _last = [], []


def put_channels_last():
    """Networks made from here on take images (n, h, w, c) and keep activations so."""
    _last.append(True)
    for module in _networks:
        module.SPATIAL = (1, 2)


def network_of(path):
    """The module `pytorch.py` beside a file, with PaddlePaddle's layers."""
    beside = os.path.join(os.path.dirname(path), "pytorch.py")
    spec = importlib.util.spec_from_file_location("nightbench_torch_network", beside)
    module = importlib.util.module_from_spec(spec)
    torch = _torch()
    names = {"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": torch.nn.functional}
    sys.modules.update(names)
    try:
        spec.loader.exec_module(module)
    finally:
        for name in names:  # PaddlePaddle itself looks whether there is a torch.
            del sys.modules[name]
    _networks.append(module)
    return module


def _torch():
    return types.SimpleNamespace(
        cat=lambda tensors, dim: paddle.concat(tensors, axis=dim),
        nn=types.SimpleNamespace(
            functional=types.SimpleNamespace(
                **{
                    **vars(functional),
                    "max_pool2d": _laid(functional.max_pool2d),
                    "adaptive_avg_pool2d": _pooled,
                }
            ),
            Module=nn.Layer,
            ModuleList=nn.LayerList,
            Sequential=nn.Sequential,
            Identity=nn.Identity,
            ReLU=nn.ReLU,
            Dropout=nn.Dropout,
            Embedding=nn.Embedding,
            BatchNorm1d=nn.BatchNorm1D,
            BatchNorm2d=_laid(nn.BatchNorm2D),
            Conv2d=_laid(_with_bias(nn.Conv2D)),
            Linear=_with_bias(nn.Linear),
        ),
    )


def _with_bias(layer):
    def made(*shape, bias=True, **named):
        return layer(*shape, bias_attr=None if bias else False, **named)

    return made


def _laid(function):
    """What takes a `data_format`, with that of the case."""

    def made(*shape, **named):
        return function(*shape, data_format="NHWC" if _last else "NCHW", **named)

    return made


def _pooled(images, size):
    """Averages with channels first: what is flattened next has the order of data.py's weights."""
    pooled = _laid(functional.adaptive_avg_pool2d)(images, size)
    return pooled.transpose([0, 3, 1, 2]) if _last else pooled
