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


def network_of(path):
    """The module `pytorch.py` beside a file, with PaddlePaddle's layers."""
    beside = os.path.join(os.path.dirname(path), "pytorch.py")
    spec = importlib.util.spec_from_file_location("nightbench_torch_network", beside)
    module = importlib.util.module_from_spec(spec)
    torch = _torch()
    names = {"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": functional}
    sys.modules.update(names)
    try:
        spec.loader.exec_module(module)
    finally:
        for name in names:  # PaddlePaddle itself looks whether there is a torch.
            del sys.modules[name]
    return module


def _torch():
    return types.SimpleNamespace(
        cat=lambda tensors, dim: paddle.concat(tensors, axis=dim),
        nn=types.SimpleNamespace(
            functional=functional,
            Module=nn.Layer,
            ModuleList=nn.LayerList,
            Sequential=nn.Sequential,
            Identity=nn.Identity,
            ReLU=nn.ReLU,
            Dropout=nn.Dropout,
            Embedding=nn.Embedding,
            BatchNorm1d=nn.BatchNorm1D,
            BatchNorm2d=nn.BatchNorm2D,
            Conv2d=_with_bias(nn.Conv2D),
            Linear=_with_bias(nn.Linear),
        ),
    )


def _with_bias(layer):
    def made(*shape, bias=True, **named):
        return layer(*shape, bias_attr=None if bias else False, **named)

    return made
