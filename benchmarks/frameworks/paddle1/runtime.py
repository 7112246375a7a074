"""PaddlePaddle 1.8 (Fluid) on a node: static graph; trainers and parameter servers over gRPC."""

import os

import numpy
import paddle
from base_runtime import Base
from paddle import fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    distributed_strategy,
    fleet,
)
from rendezvous import Rendezvous

factory = distributed_strategy.StrategyFactory
STRATEGIES = {
    "sync": factory.create_sync_strategy,
    "async": factory.create_async_strategy,
    "half_async": factory.create_half_async_strategy,
    "geo": lambda: factory.create_geo_strategy(20),
}
"""Geo-SGD exchanges its updates every 20 steps."""


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
        if self.distributed:
            # gRPC would send the gang's traffic through a proxy; Fluid's launcher drops these too.
            for variable in ("http_proxy", "https_proxy"):
                os.environ.pop(variable, None)
            fleet.init(role_maker.PaddleCloudRoleMaker())

    def minimize(self, optimizer, loss):
        """Adds backward pass and update to the program; splits it between trainer and servers."""
        self.loss = loss
        if self.distributed:
            self.strategy = STRATEGIES[self.context.case["sync"]]()
            optimizer = fleet.distributed_optimizer(optimizer, self.strategy)
        optimizer.minimize(loss)

    def serve(self):
        """Runs this parameter server until somebody ends it.

        Fluid 1.8's servers outlive their trainers' farewells; its launcher ends them, and so does
        the agent, once all trainers of the gang are done.
        """
        fleet.init_server()
        fleet.run_server()

    def start(self):
        """Initialises this trainer's weights; returns (executor, the program of one step)."""
        executor = fluid.Executor(fluid.CPUPlace())
        if not self.distributed:
            executor.run(fluid.default_startup_program())
            return executor, fluid.default_main_program()
        fleet.init_worker()
        executor.run(fleet.startup_program)
        if self.context.world_size > 1:
            first = self.context.trainers[0]["name"]
            # On the trainer's port: in this mode Fluid's trainers do not listen themselves.
            self.meeting = Rendezvous(
                self.context.rank, self.context.world_size, self.context.address(first)
            )
        program = fleet.main_program
        if self.context.case["sync"] != "sync":
            program = fluid.CompiledProgram(program).with_data_parallel(
                loss_name=self.loss.name,
                build_strategy=self.strategy.get_build_strategy(),
                exec_strategy=self.strategy.get_execute_strategy(),
            )
        return executor, program

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

    def precision_proof(self, task):
        """Fluid on the CPU computes in the type of its variables: all that are floats are fp32."""
        names = ("FP16", "FP32", "FP64")
        types = {
            name
            for variable in fluid.default_main_program().list_vars()
            if variable.type == fluid.core.VarDesc.VarType.LOD_TENSOR
            for name in names
            if variable.dtype == getattr(fluid.core.VarDesc.VarType, name)
        }
        if types != {"FP32"} or self.context.precision != "fp32":
            raise RuntimeError("variables are {}, not FP32 alone".format(", ".join(sorted(types))))
        return "fp32"

    def shutdown(self):
        """Tells the servers that this trainer is done, so that none waits for its gradients."""
        if self.meeting:
            self.meeting.close()
        if self.distributed:
            fleet.stop_worker()
