"""PyTorch's names for OneFlow, so that it runs the model files `pytorch.py`.

OneFlow has most of the API that they use. This module adds the parts that its version 0.9 lacks.
"""

import math
import os
import sys

import oneflow
from oneflow.nn import functional


def scaled_dot_product_attention(query, key, value, dropout_p=0.0):
    """Attention from queries (n, heads, length, size), keys and values, to the same shape."""
    scores = oneflow.matmul(query, key.transpose(2, 3)) / math.sqrt(query.shape[3])
    weights = functional.dropout(functional.softmax(scores, dim=3), dropout_p)
    return oneflow.matmul(weights, value)


def take_along_dim(tensor, indices, dim):
    """Select by indices (n, k, 1) from (n, length, size), because `gather` does not broadcast."""
    return oneflow.gather(tensor, dim, indices.expand(-1, -1, tensor.shape[2]))


def unflatten(tensor, dim, sizes):
    """Split a dimension of a tensor into several."""
    return tensor.reshape(*tensor.shape[:dim], *sizes, *tensor.shape[dim + 1 :])


def put_channels_last(network):
    """Make models of the module `network` take images (n, h, w, c), by OneFlow's own switch."""
    os.environ["ONEFLOW_ENABLE_NHWC"] = "1"
    network.SPATIAL = (1, 2)


def _last():
    return os.environ.get("ONEFLOW_ENABLE_NHWC") == "1"


def max_pool2d(images, *shape, pool=functional.max_pool2d, **named):
    """Max-pools in the layout of the switch, which OneFlow's function does not read."""
    layout = "channels_last" if _last() else "channels_first"
    return pool(images, *shape, data_format=layout, **named)


def adaptive_avg_pool2d(images, size, pool=functional.adaptive_avg_pool2d):
    """Average-pools; returns channels first, the order of data.py's next weights."""
    return pool(images.permute(0, 3, 1, 2) if _last() else images, size)


def install():
    """Make `import torch` mean OneFlow in this process."""
    functional.max_pool2d = max_pool2d
    functional.adaptive_avg_pool2d = adaptive_avg_pool2d
    functional.scaled_dot_product_attention = scaled_dot_product_attention
    oneflow.take_along_dim = take_along_dim
    oneflow.Tensor.unflatten = unflatten
    sys.modules["torch"] = oneflow
    sys.modules["torch.nn"] = oneflow.nn
    sys.modules["torch.nn.functional"] = functional
