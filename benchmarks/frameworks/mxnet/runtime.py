"""A process of MXNet on a node: alone, as a rank of Horovod, or in a role of ps-lite."""

import collections
import os
import threading

import cuda11
import rendezvous
from base_runtime import Base

# If the role is not `worker`, the import would serve and then exit, so serve() imports it.
role = os.environ.pop("DMLC_ROLE", None)
cuda11.load()
import mxnet  # noqa: E402 - see above

if role:
    os.environ["DMLC_ROLE"] = role

AGREED = 10**6
"""First key of the numbers that workers agree on; weights have the keys from 0 on."""


class Runtime(Base):
    """One process; a worker has the key-value store `store`, which is None for a single worker."""

    line = "mxnet"
    package = mxnet
    # Gluon's examples also wait at every batch when they update their metric.
    mark = Base.idle_mark

    def init(self):
        """Choose the device (the launcher shows only its own), join the servers or ranks."""
        context = self.context
        self.device = mxnet.gpu(0) if self.gpu else mxnet.cpu()
        mxnet.random.seed(context.seed + context.data_rank)
        self.distributed = context.case["strategy"] == "parameter_server"
        self.store, self.horovod = None, None
        self.agreements = 0
        if context.grouped:
            self.horovod = horovod_of(context)
        if self.distributed and context.measured:
            self.store = mxnet.kv.create("dist_" + context.case["sync"])

    def barrier(self):
        """Wait for this process's work and for the other workers."""
        self.device_sync()
        if self.store:
            self.store._barrier()
        elif self.horovod:
            self.agree(0)

    def agree(self, value):
        """Return the number of rank 0, or of ps-lite's first worker (a key's initial value)."""
        number = mxnet.nd.array([value])
        if self.horovod:
            # A sum to which other ranks add zeros ends when all ranks have arrived.
            mine = number if self.context.rank == 0 else number * 0
            return self.horovod.allreduce(mine, average=False, name="agreed").asscalar().item()
        if not self.store:
            return value
        self.store.init(AGREED + self.agreements, number)
        self.store.pull(AGREED + self.agreements, out=number)
        self.agreements += 1
        return number.asscalar().item()

    def device_sync(self):
        """Wait until the engine is idle; on the CPU, too, it is asynchronous to Python."""
        mxnet.nd.waitall()

    def transport(self):
        """Return the transport of Horovod's reductions, or the one that ps-lite is built with."""
        if self.horovod:
            return "nccl" if self.gpu and self.horovod.nccl_built() else "gloo"
        return "zmq" if self.distributed else None

    def shutdown(self):
        """Disconnect from the other ranks of Horovod."""
        if self.horovod:
            self.horovod.shutdown()


def horovod_of(context):
    """Return Horovod's module after all ranks have joined at an HTTP server of rank 0."""
    import horovod.mxnet
    from horovod.runner.http import http_server

    if context.rank == 0:
        address = (os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], context.ports["master"])
        server = http_server.RendezvousHTTPServer(address, http_server.RendezvousHandler, False)
        # A scope is kept until all its ranks have deleted it, because some read it later.
        ranks = collections.Counter(["global"] * context.world_size)
        for process in context.job["processes"]:
            ranks["local_" + process["node"]] += 1
            ranks["cross_{}".format(process["local_rank"])] += 1
        server.scope_size.update(ranks)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    # Its clients give up after 1.5 s.
    rendezvous.least_of_trainers(context, 0)
    horovod.mxnet.init()
    return horovod.mxnet
