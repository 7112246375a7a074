"""A process of PaddlePaddle 1.8 (Fluid) on a node: a trainer or a parameter server over gRPC."""

import os

import numpy
import paddle
import rendezvous
from base_runtime import Base
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet


class Runtime(Base):
    """One trainer or parameter server."""

    line = "paddle1"

    def init(self):
        """Takes this process's role from the environment that launch.py made."""
        context = self.context
        if context.device is not None:
            raise RuntimeError("the line paddle1 is measured on the CPU only")
        self.distributed = context.case["strategy"] == "parameter_server"
        self.meeting = None
        if not self.distributed:
            return
        # gRPC would send the gang's traffic through a proxy; Fluid's launcher drops these too.
        for variable in ("http_proxy", "https_proxy"):
            os.environ.pop(variable, None)
        fleet.init(role_maker.PaddleCloudRoleMaker())
        if context.role == "trainer":
            # On the trainer's port: in this mode Fluid's trainers do not listen themselves.
            self.meeting = rendezvous.of_trainers(context)

    def barrier(self):
        """Waits for the other trainers."""
        if self.meeting:
            self.meeting.barrier()

    def agree(self, value):
        """Trainer 0's number."""
        return self.meeting.agree(value) if self.meeting else value

    def versions(self):
        """PaddlePaddle's version and NumPy's."""
        versions = super().versions()
        versions["paddle1"] = paddle.__version__
        versions["numpy"] = numpy.__version__
        return versions

    def transport(self):
        """What Fluid's CPU wheel is built with."""
        return "grpc" if self.distributed else None

    def shutdown(self):
        """Tells the servers that this trainer is done, so that none waits for its gradients."""
        if self.meeting:
            self.meeting.close()
        if self.distributed:
            fleet.stop_worker()
