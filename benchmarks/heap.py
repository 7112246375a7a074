"""Memory that malloc keeps after a step frees it."""

import numpy

LARGEST_KEPT = 2**25 - 2**16
"""Bytes: larger blocks glibc's malloc always maps one by one."""


def keep_what_is_freed():
    """Lets glibc's malloc keep freed memory for the next step, as far as it ever does by itself.

    It gives the end of its heap back where twice the largest mapped block that was ever freed is
    unused there. With blocks of initial weights that was 38 MB for ResNet-50. In half of the
    launches of PyTorch's trainer each step gave as much back, and had it again by page faults. Now
    it is 64 MB, the most; larger networks have that anyhow.
    """
    numpy.empty(LARGEST_KEPT, dtype="uint8")
