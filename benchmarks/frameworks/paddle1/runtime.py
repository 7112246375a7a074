"""A process of PaddlePaddle 1.8 (Fluid) on a node: over NCCL, or with servers over gRPC."""

import os

import paddle
import rendezvous
import traffic
from base_runtime import Base, leave_proxies
from paddle.fluid.incubate.fleet import collective
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet


class Runtime(Base):
    """One trainer or parameter server."""

    line = "paddle1"
    package = paddle

    def init(self):
        """Take this process's role from the environment that launch.py made."""
        context = self.context
        self.distributed = context.case["strategy"] == "parameter_server"
        if context.grouped and not self.distributed:
            traffic.listen_to_nccl(os.environ)
            collective.fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
            # Trainers wait on their own ports for NCCL's unique id.
            self.meeting = rendezvous.of_trainers(context, "master")
        if not self.distributed:
            return
        leave_proxies()  # as Fluid's launcher does
        fleet.init(role_maker.PaddleCloudRoleMaker())
        if context.role == "trainer":
            # On the trainer's port: in this mode Fluid's trainers do not listen themselves.
            self.meeting = rendezvous.of_trainers(context)

    def transport(self):
        """Return gRPC with servers, or what NCCL reports between ranks."""
        if self.context.grouped and not self.distributed:
            return traffic.of_nccl(os.environ)
        return "grpc" if self.distributed else None

    def shutdown(self):
        """Inform the servers that this trainer is done, so that they no longer wait for it."""
        super().shutdown()
        if self.distributed:
            fleet.stop_worker()
