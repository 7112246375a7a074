"""A MindSpore process on a node: a rank on the CPU, or the scheduler that connects the ranks."""

import mindspore
import traffic
from base_runtime import Base
from mindspore import communication, ops


class Runtime(Base):
    """One rank, or the scheduler."""

    line = "mindspore"
    package = mindspore
    mark = Base.idle_mark

    def init(self):
        """Join the other ranks."""
        mindspore.set_device("CPU")
        mindspore.set_seed(self.context.seed + self.context.data_rank)
        if self.context.grouped:
            communication.init()

    def barrier(self):
        """Wait for all ranks."""
        self.agree(0)

    def broadcast(self, value):
        """Return rank 0's number: the sum of its number and the others' zeros."""
        own = value if self.context.rank == 0 else 0
        return ops.AllReduce()(mindspore.Tensor([own], mindspore.float32)).asnumpy().item()

    def device_sync(self):
        """Wait until all queued work has run; on the CPU, too, it is asynchronous to Python."""
        mindspore.runtime.synchronize()

    def transport_of_cpus(self):
        """Return gloo and the network that it really uses."""
        return traffic.of_sockets("gloo")
