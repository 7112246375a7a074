"""Memory that malloc keeps after a step frees it."""

import numpy

LARGEST_KEPT = 2**25 - 2**16
"""Bytes; glibc's malloc always maps larger blocks one by one."""


def keep_what_is_freed():
    """Make glibc's malloc keep as much freed memory for the next step as it can.

    malloc returns the end of its heap to the kernel when twice the largest mapped block ever
    freed is unused there. After the initial weights of ResNet-50, this limit was 38 MB. In half of
    the launches of PyTorch's trainer, each step returned that much and got it back by page faults.
    Freeing one large block sets the limit to its maximum, 64 MB; larger networks reach it anyway.
    """
    numpy.empty(LARGEST_KEPT, dtype="uint8")
