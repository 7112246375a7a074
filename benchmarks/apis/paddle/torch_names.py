"""PyTorch's names for PaddlePaddle, so that both libraries run the same `pytorch.py`.

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
    """Make networks that are built later take images (n, h, w, c) and keep this layout."""
    _last.append(True)
    for module in _networks:
        module.SPATIAL = (1, 2)


def network_of(path):
    """Return the module `pytorch.py` next to a file, with PaddlePaddle's layers."""
    beside = os.path.join(os.path.dirname(path), "pytorch.py")
    spec = importlib.util.spec_from_file_location("nightbench_torch_network", beside)
    module = importlib.util.module_from_spec(spec)
    torch = _torch()
    names = {"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": torch.nn.functional}
    # PaddlePaddle's attention takes (n, length, heads, size) like the networks.
    names["attention"] = types.SimpleNamespace(
        by_heads=lambda attend, *tensors, **named: attend(*tensors, **named)
    )
    sys.modules.update(names)
    try:
        spec.loader.exec_module(module)
    finally:
        for name in names:  # PaddlePaddle itself checks for a module torch.
            del sys.modules[name]
    _networks.append(module)
    return module


def _torch():
    return types.SimpleNamespace(
        cat=lambda tensors, dim=0: paddle.concat(tensors, axis=dim),
        empty=lambda shape: paddle.normal(std=0.02, shape=shape),  # For reference loops.
        from_numpy=paddle.to_tensor,
        stack=paddle.stack,
        take_along_dim=paddle.take_along_axis,
        tanh=paddle.tanh,
        zeros=paddle.zeros,
        nn=types.SimpleNamespace(
            functional=types.SimpleNamespace(
                **{
                    **vars(functional),
                    "max_pool2d": _in_layout(functional.max_pool2d),
                    "adaptive_avg_pool2d": _pooled,
                    "cross_entropy": _cross_entropy,
                    "gelu": _gelu,
                    "linear": _linear,
                    "one_hot": lambda chosen, count: functional.one_hot(chosen, count).astype(int),
                    "scaled_dot_product_attention": _attention,
                }
            ),
            Module=nn.Layer,
            Parameter=_parameter,
            ModuleList=nn.LayerList,
            ModuleDict=nn.LayerDict,
            Sequential=nn.Sequential,
            Identity=nn.Identity,
            ReLU=nn.ReLU,
            Dropout=nn.Dropout,
            Embedding=nn.Embedding,
            LayerNorm=nn.LayerNorm,
            RMSNorm=_RMSNorm,
            BatchNorm1d=nn.BatchNorm1D,
            BatchNorm2d=_in_layout(nn.BatchNorm2D),
            Conv2d=_in_layout(_with_bias(nn.Conv2D)),
            Linear=_with_bias(nn.Linear),
        ),
    )


class _RMSNorm(nn.Layer):
    """RMSNorm over the last dimension in float32; PaddlePaddle's `rms_norm` has no CPU kernel."""

    def __init__(self, hidden, epsilon):
        super().__init__()
        self.epsilon = epsilon
        ones = nn.initializer.Constant(1.0)
        self.weight = self.create_parameter([hidden], default_initializer=ones)

    def forward(self, x):
        """From (n, length, hidden) to the same shape."""
        y = x.astype("float32")
        y = y * paddle.rsqrt(y.square().mean(-1, keepdim=True) + self.epsilon)
        return (y * self.weight).astype(x.dtype)


def _parameter(values):
    made = paddle.create_parameter(values.shape, values.dtype)
    made.set_value(values)
    return made


def _attention(query, key, value, attn_mask=None, is_causal=False, **named):
    """Return attention of (n, length, heads, size).

    PaddlePaddle 2 has neither masked nor causal attention on CPUs.
    """
    if attn_mask is None and is_causal and paddle.__version__.startswith("2."):
        attn_mask = paddle.tril(paddle.ones([query.shape[1], query.shape[1]]))
    if attn_mask is None:
        attend = functional.scaled_dot_product_attention
        return attend(query, key, value, is_causal=is_causal, **named)
    query, key, value = (each.transpose([0, 2, 1, 3]) for each in (query, key, value))
    unseen = (1 - attn_mask.astype("float32")) * -1e9
    scores = paddle.matmul(query * query.shape[-1] ** -0.5, key, transpose_y=True) + unseen
    return paddle.matmul(functional.softmax(scores), value).transpose([0, 2, 1, 3])


def _cross_entropy(logits, labels, ignore_index=-100, label_smoothing=0.0):
    """Return the mean over labels that are not ignored, which PaddlePaddle does not smooth."""
    if not label_smoothing:
        return functional.cross_entropy(logits, labels, ignore_index=ignore_index)
    smooth = functional.one_hot(labels, logits.shape[-1])
    smooth = functional.label_smooth(smooth, epsilon=label_smoothing)
    each = functional.cross_entropy(logits, smooth, soft_label=True, reduction="none").squeeze(-1)
    kept = (labels != ignore_index).astype("float32")
    return (each * kept).sum() / kept.sum()


def _gelu(x, approximate="none"):
    return functional.gelu(x, approximate == "tanh")


def _linear(x, matrix, bias=None):
    """Return x @ matrix.T + bias: as in PyTorch, the matrix is (out, in)."""
    made = paddle.matmul(x, matrix, transpose_y=True)
    return made if bias is None else made + bias


def _with_bias(layer):
    def made(*shape, bias=True, **named):
        return layer(*shape, bias_attr=None if bias else False, **named)

    return made


def _in_layout(function):
    """Return a function or layer that gets the `data_format` of the case."""

    def made(*shape, **named):
        return function(*shape, data_format="NHWC" if _last else "NCHW", **named)

    return made


def _pooled(images, size):
    """Average-pool; return channels first, the order in which data.py's next weights are stored."""
    pooled = _in_layout(functional.adaptive_avg_pool2d)(images, size)
    return pooled.transpose([0, 3, 1, 2]) if _last else pooled
