"""FLOPs of an eager step of PaddlePaddle, counted from the products that Python calls.

PaddlePaddle's own counters count only forward passes (`paddle.flops`), or report no shapes of eager
operators (its profiler). Backward runs in C++: one product for each input that needs a gradient.
"""

import paddle
from paddle import _C_ops

from apis.paddle.program_flops import convolution, product


def _attention(key, value, made):
    """Return multiply-adds of both products of (batch, length, heads, width); masked ones count."""
    return 2 * made.size * key.shape[1]


SUMMED = {
    **dict.fromkeys(("matmul", "__matmul__", "linear", "linear_v2"), (product, 2)),
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), (convolution, 2)),
    "flash_attn": (_attention, 3),
}
"""Operator -> function for its multiply-adds, and the number of tensors that it multiplies."""


class Flops:
    """Counts the FLOPs of the products that Python calls in its block, forward and backward."""

    def __init__(self):
        self.total, self._inside = 0, False
        self._found = [
            (module, name, getattr(module, name))
            for module in (paddle, paddle.Tensor, _C_ops)
            for name in SUMMED
            if hasattr(module, name)
        ]

    def __enter__(self):
        for module, name, function in self._found:
            setattr(module, name, self._counting(name, function))
        return self

    def __exit__(self, *_):
        for module, name, function in self._found:
            setattr(module, name, function)

    def _counting(self, name, function):
        def counted(*given, **named):
            return self._counted(name, function, *given, **named)

        return counted

    def _counted(self, name, function, *given, **named):
        """Call an operator and count its FLOPs; operators that it calls are not counted again."""
        if self._inside:
            return function(*given, **named)
        self._inside = True
        try:
            made = function(*given, **named)
        finally:
            self._inside = False
        summed, count = SUMMED[name]
        tensors = [*given, *(named[key] for key in ("x", "y") if key in named)][:count]
        gradients = sum(not each.stop_gradient for each in tensors)
        # Each of attention's two products has two gradients, or no gradient is needed.
        gradients = gradients and 2 if count == 3 else gradients
        first = made[0] if isinstance(made, (tuple, list)) else made
        self.total += 2 * summed(*tensors[1:], first) * (1 + gradients)
        return made
