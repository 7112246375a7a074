"""PaddlePaddle 3 on a node: DataParallel over gloo, dynamic graph, on the CPU."""

import hashlib
import os

import numpy
import paddle
import paddle.distributed as dist
import traffic
from base_runtime import Base, expect_precision


class Runtime(Base):
    """One rank."""

    line = "paddle3"

    def init(self):
        """Joins the other ranks; Paddle has no process group of one."""
        if self.context.device is not None:
            raise RuntimeError("the line paddle3 is measured on the CPU only")
        paddle.set_device("cpu")
        collective = self.context.case["strategy"] == "collective"
        self.grouped = collective and self.context.world_size > 1
        if self.grouped:
            dist.init_parallel_env()

    def parallel(self, model):
        """The model with its gradients averaged over the ranks."""
        return paddle.DataParallel(model) if self.grouped else model

    def barrier(self):
        """Waits for all ranks."""
        if self.grouped:
            dist.barrier()

    def agree(self, value):
        """Rank 0's number, by broadcast."""
        if not self.grouped:
            return value
        shared = paddle.to_tensor([float(value)], dtype="float64")
        dist.broadcast(shared, src=0)
        return shared.item()

    def weights_digest(self, task):
        """The sha256 over names and values of all trainable parameters, batch-norm buffers not."""
        digest = hashlib.sha256()
        for name, parameter in sorted(task.model.named_parameters()):
            if not parameter.stop_gradient:
                digest.update(name.encode())
                digest.update(parameter.numpy().astype("float32").tobytes())
        return digest.hexdigest()

    def versions(self):
        """PaddlePaddle's version and NumPy's."""
        versions = super().versions()
        versions["paddle3"] = paddle.__version__
        versions["numpy"] = numpy.__version__
        return versions

    def transport(self):
        """The process group's backend and the network that it really uses."""
        if not self.grouped:
            return None
        backend = dist.get_backend().lower()
        if backend != "gloo":
            return backend
        return traffic.of_gloo(int(os.environ["PADDLE_MASTER"].rpartition(":")[2]))

    def precision_proof(self, task):
        """Looks at what a product keeps of 1 + 2^-12: bfloat16 and TF32 round it to 1."""
        types = {str(p.dtype) for p in task.model.parameters()}
        if types != {"paddle.float32"}:
            raise RuntimeError("parameters are {}, not float32".format(", ".join(sorted(types))))
        fine = paddle.full([256, 256], 1 + 2.0**-12)
        exact = bool((paddle.matmul(fine, paddle.eye(256)) == fine).all())
        return expect_precision(self.context.precision, "fp32" if exact else "bf16")

    def shutdown(self):
        """Leaves together: rank 0 holds the store that the others still speak to."""
        if self.grouped:
            dist.barrier()
            dist.destroy_process_group()
