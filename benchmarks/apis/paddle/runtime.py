"""A PaddlePaddle process on a node: the CPU and its process group over gloo."""

import os

import numpy
import paddle
import paddle.distributed as dist
import traffic
from base_runtime import Base


class PaddleRuntime(Base):
    """One rank; a line says its name in `line`."""

    def init(self):
        """Joins the other ranks."""
        if self.context.device is not None:
            raise RuntimeError("the line {} is measured on the CPU only".format(self.line))
        paddle.set_device("cpu")
        if self.context.grouped:
            dist.init_parallel_env()

    def barrier(self):
        """Waits for all ranks."""
        if self.context.grouped:
            dist.barrier()

    def agree(self, value):
        """Rank 0's number, by broadcast."""
        if not self.context.grouped:
            return value
        shared = paddle.to_tensor([float(value)], dtype="float64")
        dist.broadcast(shared, src=0)
        return shared.item()

    def versions(self):
        """PaddlePaddle's version and NumPy's."""
        versions = super().versions()
        versions[self.line] = paddle.__version__
        versions["numpy"] = numpy.__version__
        return versions

    def transport(self):
        """The process group's backend and the network that it really uses."""
        if not self.context.grouped:
            return None
        backend = dist.get_backend().lower()
        if backend != "gloo":
            return backend
        return traffic.of_gloo(int(os.environ["PADDLE_MASTER"].rpartition(":")[2]))

    def shutdown(self):
        """Leaves together: rank 0 holds the store that the others still speak to."""
        if self.context.grouped:
            dist.barrier()
            dist.destroy_process_group()
