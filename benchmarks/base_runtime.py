"""Base of a framework's runtime: one rank on the host, synchronous steps.

`frameworks/<line>/runtime.py` holds a class `Runtime(Base)`: what concerns the process and not the
training. It overrides what its framework does differently. `measure` says what the clock methods
mean, `rank` in which order all are called.
"""

import os
import platform
import time


class Base:
    """Defaults for one rank without peers, whose steps are complete when they return."""

    line = None
    """Name of the framework line: the key of its version in `versions()`."""

    package = None
    """The framework's module, of a line on NumPy: `versions()` has the versions of both."""

    meeting = None
    """A `Rendezvous` of the ranks, which `init` sets where the framework has no barrier."""

    def __init__(self, context):
        self.context = context

    def init(self):
        """Loads the framework, chooses the device, joins the other ranks."""

    def barrier(self):
        """Waits for all ranks (a barrier)."""
        if self.meeting:
            self.meeting.barrier()

    def agree(self, value):
        """Returns rank 0's number on every rank (a broadcast)."""
        return self.meeting.agree(value) if self.meeting else value

    def device_sync(self):
        """Waits until the device is idle."""

    def mark(self):
        """Returns a mark: a point in time in the device's work."""
        return time.perf_counter()

    def idle_mark(self):
        """The mark of lines that queue their work and show Python no device events."""
        self.device_sync()
        return time.perf_counter()

    def laps(self, marks):
        """Returns the seconds between neighbouring marks."""
        return [end - begin for begin, end in zip(marks, marks[1:])]

    def peak_memory(self):
        """Returns peak memory, bytes: of this process, and of the framework's device allocator."""
        return {"resident_bytes": peak_resident_bytes(), "allocator_bytes": None}

    def versions(self):
        """Returns name -> version of software that affects results; the framework's is the line."""
        versions = {"python": platform.python_version()}
        if self.package is not None:
            import numpy

            versions[self.line] = self.package.__version__
            versions["numpy"] = numpy.__version__
        return versions

    def transport(self):
        """Returns the transport that the ranks really use; None for one rank."""
        return None

    def shutdown(self):
        """Disconnects from the other ranks."""
        if self.meeting:
            self.meeting.close()


def leave_proxies():
    """Lets no proxy come between the processes of a gang."""
    for variable in ("http_proxy", "https_proxy"):
        os.environ.pop(variable, None)


def peak_resident_bytes():
    """Returns the peak resident memory of this process, in bytes.

    getrusage would count the process that it was forked from, too.
    """
    with open("/proc/self/status") as stream:
        for line in stream:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")
