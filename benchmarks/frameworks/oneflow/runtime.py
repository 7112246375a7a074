"""A OneFlow process on a node: its device, and the ranks, which importing OneFlow connects."""

from base_runtime import Base, leave_proxies

leave_proxies()  # Importing OneFlow joins the ranks, over gRPC.
import oneflow  # noqa: E402 - see above
from frameworks.oneflow import torch_api  # noqa: E402


class Runtime(Base):
    """One rank."""

    line = "oneflow"
    package = oneflow
    mark = Base.idle_mark

    def init(self):
        """Choose the device (the launcher shows the process only its own)."""
        torch_api.install()
        oneflow.manual_seed(self.context.seed + self.context.data_rank)
        self.device = oneflow.device("cuda" if self.gpu else "cpu")

    def barrier(self):
        """Wait for all ranks and for the work that they have queued."""
        self.device_sync()
        if self.context.grouped:
            oneflow.comm.barrier()

    def broadcast(self, value):
        """Return rank 0's number on every rank."""
        shared = oneflow.tensor([value], dtype=oneflow.float64, device=self.device)
        oneflow.comm.broadcast(shared, src=0)
        return shared.item()

    def device_sync(self):
        """Wait until all queued work has run; on the CPU, too, it is asynchronous to Python."""
        if self.gpu:
            oneflow.cuda.synchronize()
        else:
            oneflow._oneflow_internal.eager.Sync()

    def transport(self):
        """Return NCCL between GPUs, or OneFlow's own sockets on CPUs, without their network."""
        if not self.context.grouped:
            return None
        return "nccl" if self.gpu else "epoll"

    def shutdown(self):
        """Wait for all ranks, so that they leave together."""
        self.barrier()
