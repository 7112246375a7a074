"""Base of a framework's runtime: one rank on the host, synchronous steps.

`frameworks/<line>/runtime.py` has a class `Runtime(Base)`, which handles the process and not the
training. It overrides what its framework does differently. `measure` describes the clock methods,
and `rank` shows the order of all calls.
"""

import os
import platform
import time

import traffic


class Base:
    """Defaults for one rank without peers, whose steps are complete when they return."""

    line = None
    """Name of the framework line: the key of its version in `versions()`."""

    package = None
    """The module of a framework that uses NumPy: `versions()` has the versions of both."""

    meeting = None
    """A `Rendezvous` of the ranks, which `init` sets if the framework has no barrier."""

    def __init__(self, context):
        self.context = context
        self.gpu = context.device is not None

    def init(self):
        """Load the framework, choose the device, join the other ranks."""

    def barrier(self):
        """Wait for all ranks (a barrier)."""
        if self.meeting:
            self.meeting.barrier()

    def agree(self, value):
        """Return rank 0's number on every rank."""
        if self.meeting:
            return self.meeting.agree(value)
        return self.broadcast(value) if self.context.grouped else value

    def broadcast(self, value):
        """Return rank 0's number on every rank of a framework that has a process group."""
        raise NotImplementedError

    def device_sync(self):
        """Wait until the device is idle."""

    def mark(self):
        """Return a mark: a point in time in the device's work."""
        return time.perf_counter()

    def idle_mark(self):
        """Return a mark when the device is idle, for lines without device events in Python."""
        self.device_sync()
        return time.perf_counter()

    def laps(self, marks):
        """Return the seconds between neighbouring marks."""
        return [end - begin for begin, end in zip(marks, marks[1:])]

    def peak_memory(self):
        """Return peak memory, bytes: of this process, and of the framework's allocator on a GPU."""
        allocated = self.allocator_bytes() if self.gpu else None
        return {"resident_bytes": peak_resident_bytes(), "allocator_bytes": allocated}

    def allocator_bytes(self):
        """Return the peak bytes of the framework's allocator on the GPU; None if unknown."""
        return None

    def versions(self):
        """Return name -> version of software that affects results; `line` names the framework."""
        versions = {"python": platform.python_version()}
        if self.package is not None:
            import numpy

            versions[self.line] = self.package.__version__
            versions["numpy"] = numpy.__version__
        return versions

    def transport(self):
        """Return the transport that the ranks really use; None for one rank."""
        if not self.context.grouped:
            return None
        return traffic.of_nccl(os.environ) if self.gpu else self.transport_of_cpus()

    def transport_of_cpus(self):
        """Return the transport between ranks on CPUs; None if unknown."""
        return None

    def shutdown(self):
        """Disconnect from the other ranks."""
        if self.meeting:
            self.meeting.close()


class EventClock(Base):
    """A runtime whose GPU records events: the host never waits for the GPU in the window."""

    new_event = None
    """Function that returns an event with PyTorch's methods."""

    def mark(self):
        """Return an event on a GPU, which has the time when the device reaches it."""
        if not self.gpu:
            return super().mark()
        event = self.new_event(enable_timing=True)
        event.record()
        return event

    def laps(self, marks):
        """Return the seconds between neighbouring marks."""
        if not self.gpu:
            return super().laps(marks)
        return [begin.elapsed_time(end) / 1e3 for begin, end in zip(marks, marks[1:])]


def leave_proxies():
    """Unset proxy variables, because processes of a gang must connect to each other directly."""
    for variable in ("http_proxy", "https_proxy"):
        os.environ.pop(variable, None)


def peak_resident_bytes():
    """Return the peak resident memory of this process, in bytes.

    getrusage is not used: it includes the process that this one was forked from.
    """
    with open("/proc/self/status") as stream:
        for line in stream:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")
