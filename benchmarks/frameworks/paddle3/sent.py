"""The bytes that a rank sends in a step, counted from the calls of process groups."""

import functools

from paddle.base.core import ProcessGroup

RING = {"all_reduce": 2, "all_gather": 1, "broadcast": 1, "reduce": 1}
"""Operation of a process group -> how often a rank of N sends (N - 1) / N of it, at best."""


class Sent:
    """Counts the bytes that this rank sends in its block, if ring algorithms are used."""

    def __init__(self):
        self.bytes = 0
        self._own = {}

    def __enter__(self):
        for name, times in RING.items():
            for each in (name, name + "_on_calc_stream"):
                self._own[each] = getattr(ProcessGroup, each)
                setattr(ProcessGroup, each, self._counting(self._own[each], times))
        return self

    def __exit__(self, *_):
        for name, method in self._own.items():
            setattr(ProcessGroup, name, method)

    def _counting(self, method, times):
        @functools.wraps(method)
        def counted(group, *args):
            whole = max(_bytes(each) for each in args)
            self.bytes += times * whole * (group.size() - 1) // group.size()
            return method(group, *args)

        return counted


def _bytes(given):
    """Return the bytes of a tensor or of a list of tensors."""
    if isinstance(given, list):
        return sum(map(_bytes, given))
    return given.size * given.element_size() if hasattr(given, "element_size") else 0
