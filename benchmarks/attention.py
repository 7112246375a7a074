"""Attention to heads side by side, for networks that PyTorch, OneFlow and PaddlePaddle share."""


def by_heads(attend, *tensors, **named):
    """Calls PyTorch's attention, which takes heads before places.

    `apis/paddle/torch_names.py` has its counterpart: PaddlePaddle's takes them as they are here.

    Args:
        attend: the function.
        tensors: queries, keys and values, each (n, length, heads, size).
        named: further arguments of it.

    Returns:
        What it gives, (n, length, heads, size).
    """
    swapped = (each.transpose(1, 2) for each in tensors)
    return attend(*swapped, **named).transpose(1, 2)
