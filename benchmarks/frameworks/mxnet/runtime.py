"""A process of MXNet on a node: alone, or a scheduler, server or worker of ps-lite."""

import os
import time

import cuda11
import numpy
from base_runtime import Base

# Where the role is not `worker`, the import would serve, and then exit: it happens in serve().
role = os.environ.pop("DMLC_ROLE", None)
cuda11.load()
import mxnet  # noqa: E402 - see above

if role:
    os.environ["DMLC_ROLE"] = role

AGREED = 10**6
"""First key of the numbers that workers agree on; weights have the keys from 0 on."""


class Runtime(Base):
    """One process; workers hold the key-value store in `store`, which is None for a lone one."""

    line = "mxnet"

    def init(self):
        """Chooses the device (the launcher shows the process only its own), meets the servers."""
        context = self.context
        self.gpu = context.device is not None
        self.device = mxnet.gpu(0) if self.gpu else mxnet.cpu()
        self.distributed = context.case["strategy"] == "parameter_server"
        self.store = None
        self.agreements = 0
        if self.distributed and context.measured:
            self.store = mxnet.kv.create("dist_" + context.case["sync"])

    def barrier(self):
        """Waits for this process's work and for the other workers."""
        self.device_sync()
        if self.store:
            self.store._barrier()

    def agree(self, value):
        """The number of ps-lite's first worker, by a key that is initialised once."""
        if not self.store:
            return value
        number = mxnet.nd.array([value])
        self.store.init(AGREED + self.agreements, number)
        self.store.pull(AGREED + self.agreements, out=number)
        self.agreements += 1
        return number.asscalar().item()

    def device_sync(self):
        """Waits until the engine has nothing left to do: on the CPU too it runs behind Python."""
        mxnet.nd.waitall()

    def mark(self):
        """A reading of the clock when the engine is idle: MXNet shows Python no device events.

        Gluon's examples wait at every batch as well, where they update their metric.
        """
        self.device_sync()
        return time.perf_counter()

    def versions(self):
        """MXNet's version and NumPy's."""
        versions = super().versions()
        versions["mxnet"] = mxnet.__version__
        versions["numpy"] = numpy.__version__
        return versions

    def transport(self):
        """What ps-lite in the wheels is built with."""
        return "zmq" if self.distributed else None
