"""PyTorch's names for OneFlow, so that it runs the model files `pytorch.py`.

OneFlow has PyTorch's API for most of what they use; what its version 0.9 lacks is added here.
"""

import math
import sys

import oneflow
from oneflow.nn import functional


def scaled_dot_product_attention(query, key, value, dropout_p=0.0):
    """Attention from queries (n, heads, length, size), keys and values, to the same shape."""
    scores = oneflow.matmul(query, key.transpose(2, 3)) / math.sqrt(query.shape[3])
    weights = functional.dropout(functional.softmax(scores, dim=3), dropout_p)
    return oneflow.matmul(weights, value)


def take_along_dim(tensor, indices, dim):
    """As `gather`, which does not broadcast: indices (n, k, 1) select from (n, length, size)."""
    return oneflow.gather(tensor, dim, indices.expand(-1, -1, tensor.shape[2]))


def unflatten(tensor, dim, sizes):
    """Splits a dimension of a tensor into several."""
    return tensor.reshape(*tensor.shape[:dim], *sizes, *tensor.shape[dim + 1 :])


def install():
    """Makes `import torch` mean OneFlow in this process."""
    functional.scaled_dot_product_attention = scaled_dot_product_attention
    oneflow.take_along_dim = take_along_dim
    oneflow.Tensor.unflatten = unflatten
    sys.modules["torch"] = oneflow
    sys.modules["torch.nn"] = oneflow.nn
    sys.modules["torch.nn.functional"] = functional
