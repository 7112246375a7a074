"""Runtime of the test line: ranks communicate over TCP, with the standard library alone."""

import time

import rendezvous
from base_runtime import Base
from frameworks.fake.faults import Faults


class Runtime(Base):
    """One trainer or parameter server."""

    line = "fake"

    def init(self):
        """Add the faults to the parameters and connect to the other trainers."""
        self.faults = Faults(self.context)
        self.context.params = self.faults.knobs
        self.faults.on_start()
        if self.context.measured:
            self.meeting = rendezvous.of_trainers(self.context)

    def meet(self, value=0):
        """Return rank 0's number. As with NCCL, a rank waits forever for one that has died.

        With the knob `die_of_others` it dies too, as with gloo.
        """
        if self.meeting is None:
            return value
        try:
            return super().agree(value)
        except (OSError, RuntimeError):
            if self.faults.knobs.get("die_of_others"):
                raise ConnectionResetError("connection reset by peer") from None
            while True:
                time.sleep(3600)

    def barrier(self):
        """Wait for the other trainers."""
        self.meet()

    def agree(self, value):
        """Return trainer 0's number."""
        return self.meet(value)

    def versions(self):
        """Return the line's version, or the one that a fault reports."""
        versions = super().versions()
        versions[self.line] = str(self.faults.knobs.get("version", "1.0"))
        return versions

    def transport(self):
        """Return the transport to the other trainers; None for one trainer."""
        return "tcp" if self.meeting else None

    def shutdown(self):
        """Disconnect from the other trainers."""
        super().shutdown()
        self.faults.on_end()
