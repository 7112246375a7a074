"""A process of PaddlePaddle 2 on a node: a rank, or a trainer or parameter server over brpc."""

# ruff: noqa: E402 - CUDA's libraries come before PaddlePaddle

import time
from types import SimpleNamespace

import cuda11

libraries = cuda11.load()
if libraries:
    cuda11.find_without_versions(libraries)
import paddle
import rendezvous
from apis.paddle.runtime import PaddleRuntime
from base_runtime import leave_proxies
from paddle.distributed import fleet
from paddle.distributed.fleet.base import role_maker


class Runtime(PaddleRuntime):
    """One rank, trainer or parameter server."""

    line = "paddle2"  # the line's device events do not measure the time between them

    def init(self):
        """Join the other processes by the environment that launch.py made."""
        super().init()
        context = self.context
        self.distributed = context.case["strategy"] == "parameter_server"
        if not self.distributed:
            return
        leave_proxies()  # The roles meet over HTTP.
        # In eager mode, fleet.init would look for a process group.
        paddle.enable_static()
        # At the trainers' rendezvous, server 0 checks only every 5 s whether all have arrived.
        role_maker.time = SimpleNamespace(sleep=lambda seconds: time.sleep(0.1))
        fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=False))
        if context.role == "trainer":
            # On the trainer's port: in this mode PaddlePaddle's trainers do not listen there.
            self.meeting = rendezvous.of_trainers(context)

    def transport(self):
        """Return brpc with parameter servers, or the transport of the process group."""
        return "brpc" if self.distributed else super().transport()

    def shutdown(self):
        """Disconnect from the other ranks, or from the servers."""
        super().shutdown()
        if self.distributed:
            fleet.stop_worker()
