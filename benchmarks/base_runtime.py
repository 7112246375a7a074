"""What a framework's runtime inherits: one rank on the host, synchronous steps.

`frameworks/<line>/runtime.py` holds a class `Runtime(Base)`: what concerns the process and not the
training. It overrides what its framework does differently. `measure` says what the clock methods
mean, `rank` in which order all are called.
"""

import platform
import time


class Base:
    """The defaults: a lone rank whose steps have ended when they return."""

    line = None
    """Name of the framework line: the key of its version in `versions()`."""

    def __init__(self, context):
        self.context = context

    def init(self):
        """Loads the framework, chooses the device, joins the other ranks."""

    def barrier(self):
        """Waits until all ranks have come here."""

    def agree(self, value):
        """Rank 0's number, on every rank."""
        return value

    def device_sync(self):
        """Waits until the device is idle."""

    def mark(self):
        """A point in time."""
        return time.perf_counter()

    def laps(self, marks):
        """Seconds between neighbouring marks."""
        return [end - begin for begin, end in zip(marks, marks[1:])]

    def peak_memory(self):
        """Bytes at the highest: of this process, and of the framework's device allocator."""
        return {"resident_bytes": peak_resident_bytes(), "allocator_bytes": None}

    def versions(self):
        """Name -> version of what the numbers depend on; the framework's under its line."""
        return {"python": platform.python_version()}

    def transport(self):
        """What the ranks really talk over; None for one rank."""
        return None

    def shutdown(self):
        """Leaves the other ranks."""


def peak_resident_bytes():
    """This process's own high-water mark (getrusage would count what it was forked from)."""
    with open("/proc/self/status") as stream:
        for line in stream:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")
