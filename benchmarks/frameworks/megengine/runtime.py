"""A MegEngine process on a node: on the CPU, or on a GPU, with other ranks over NCCL."""

import os

import megengine
import traffic
from base_runtime import Base
from megengine import distributed


class Runtime(Base):
    """One rank."""

    line = "megengine"
    package = megengine
    mark = Base.idle_mark

    def init(self):
        """Choose the CPU or the one GPU that the launcher has left visible, join the others."""
        self.device = "gpu0" if self.gpu else "cpux"
        megengine.set_default_device(self.device)
        if self.context.grouped:
            self._meet(self.context)

    def _meet(self, context):
        traffic.listen_to_nccl(os.environ)
        host, port = context.job["nodes"][0]["data_address"], context.ports["master"]
        if context.rank == 0:
            # NCCL's rendezvous is a second server at a port that NCCL chooses.
            self.server = distributed.Server(port)
        distributed.init_process_group(host, port, context.world_size, context.rank, 0, "nccl")

    def barrier(self):
        """Wait for all ranks and for the work that they have queued."""
        self.device_sync()
        distributed.group_barrier()

    def broadcast(self, value):
        """Return rank 0's number, sent by the server."""
        context = self.context
        own = float(value) if context.rank == 0 else None
        shared = distributed.get_client().bcast_val(own, "agree", context.world_size)
        return shared if own is None else own  # its sender gets None back

    def device_sync(self):
        """Wait until all queued work has run; on the CPU, too, it is asynchronous to Python."""
        megengine._full_sync()

    def allocator_bytes(self):
        """Return the peak bytes of MegEngine's allocator."""
        return megengine.device.get_max_allocated_memory(self.device)

    def shutdown(self):
        """Leave together with the others, because the server ends with rank 0."""
        self.barrier()
