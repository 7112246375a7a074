"""FLOPs of a step by PyTorch's counter, from the matrix products and convolutions it calls."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import conv_flop_count, flop_registry

aten = torch.ops.aten


def _convolution_backward(gradient, x, weight, *others, **_):
    """Return the FLOPs of a backward; PyTorch's formula multiplies them by the number of groups."""
    transposed, mask = others[4], others[-1]
    once = conv_flop_count(x.shape, weight.shape, gradient.shape, transposed)
    return once * sum(mask[:2])


def _attention(query, key, value, *_, **__):
    """Return the FLOPs of scores and weighted sums; masked entries count too."""
    batch, heads, length, width = query.shape
    return 2 * batch * heads * length * key.shape[2] * (width + value.shape[3])


def _attention_backward(_, query, key, value, *others, **__):
    """Return the FLOPs of two gradients per product; scores that kernels recompute do not count."""
    return 2 * _attention(query, key, value)


KERNELS = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)
FORMULAS = {
    **flop_registry,
    aten.convolution_backward: _convolution_backward,
    **{getattr(aten, name): _attention for name in KERNELS},
    **{getattr(aten, name + "_backward"): _attention_backward for name in KERNELS},
}


class Flops(TorchDispatchMode):
    """Counts the FLOPs of this rank in its block, without those that `recompute` repeats."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Call a function, and count its FLOPs if it is a product."""
        if any(hasattr(each, "__tensor_flatten__") for each in types):
            return NotImplemented  # A DTensor comes again as its parts.
        found = func(*args, **(kwargs or {}))
        formula = FORMULAS.get(func._overloadpacket)
        if formula and not _is_recomputing():
            self.total += formula(*args, **(kwargs or {}), out_val=found)
        return found


def _is_recomputing():
    """Return whether a backward recomputes the forward: only then it has gradients enabled."""
    return torch._C._current_graph_task_id() >= 0 and torch.is_grad_enabled()
