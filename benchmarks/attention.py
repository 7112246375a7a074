"""Attention to (n, length, heads, size), for networks of PyTorch, OneFlow and PaddlePaddle."""


def by_heads(attend, *tensors, **named):
    """Call PyTorch's attention, which takes (n, heads, length, size).

    `apis/paddle/torch_names.py` has the counterpart for PaddlePaddle, which does not transpose.

    Args:
        attend: the attention function.
        tensors: queries, keys and values, each (n, length, heads, size).
        named: further arguments of the function.

    Returns:
        The function's result as (n, length, heads, size).
    """
    swapped = (each.transpose(1, 2) for each in tensors)
    return attend(*swapped, **named).transpose(1, 2)
