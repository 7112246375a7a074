"""A PaddlePaddle process on a node: its device, its process group over gloo or NCCL."""

import json
import os
import tempfile

import paddle
import paddle.distributed as dist
import profiling
import traffic
from base_runtime import Base

_ON_HOST = (
    "UserDefined",
    "Operator",
    "OperatorInner",
    "DygraphKernelLaunch",
    "Forward",
    "Backward",
)
_ON_DEVICE = ("Kernel", "Memcpy", "Memset")
"""Kinds of events of PaddlePaddle's profiler."""


class PaddleRuntime(Base):
    """One rank; subclasses set the name of their framework line as `line`."""

    package = paddle
    mark = Base.idle_mark

    def init(self):
        """Choose the device (the launcher shows the process only its own), join the others."""
        paddle.seed(self.context.seed + self.context.data_rank)
        paddle.set_device("gpu:0" if self.gpu else "cpu")
        if self.context.grouped:
            if self.gpu:
                traffic.listen_to_nccl(os.environ)
            dist.init_parallel_env()

    def barrier(self):
        """Wait for all ranks and for the device, because NCCL only queues the barrier."""
        super().barrier()
        if self.context.grouped:
            dist.barrier()
        self.device_sync()

    def broadcast(self, value):
        """Return rank 0's number on every rank."""
        shared = paddle.to_tensor([float(value)], dtype="float64")
        dist.broadcast(shared, src=0)
        return shared.item()

    def device_sync(self):
        """Wait until the GPU is idle; steps on the CPU have ended when they return."""
        if self.gpu:
            paddle.device.cuda.synchronize()

    def profile(self, run):
        """Return the spans of PaddlePaddle's operators; on GPUs, only those of kernels."""
        target = paddle.profiler.ProfilerTarget
        profiler = paddle.profiler.Profiler(targets=[target.GPU if self.gpu else target.CPU])
        with tempfile.TemporaryDirectory() as folder:
            # Its own handler would also write into the working directory.
            profiler.on_trace_ready = None
            profiler.start()
            run()
            profiler.stop()
            path = os.path.join(folder, "trace.json")
            profiler.export(path, format="json")
            with open(path) as stream:
                events = json.load(stream)["traceEvents"]
        kept = _ON_DEVICE if self.gpu else _ON_HOST
        spans = [
            (
                _before(each["tid"], "("),
                _before(each["name"], "["),
                each["ts"] / 1e6,
                each["dur"] / 1e6,
            )
            for each in events
            if each.get("cat") in kept
        ]
        return "paddle.profiler", profiling.nested(spans)

    def allocator_bytes(self):
        """Return the peak bytes of PaddlePaddle's allocator."""
        return paddle.device.cuda.max_memory_allocated()

    def versions(self):
        """Return PaddlePaddle's version, NumPy's and, on GPUs, CUDA's and cuDNN's."""
        versions = super().versions()
        if self.gpu:
            versions["cuda"] = str(paddle.version.cuda())
            versions["cudnn"] = str(paddle.device.get_cudnn_version())
        return versions

    def transport_of_cpus(self):
        """Return gloo and the network that it really uses."""
        return traffic.of_sockets("gloo", int(os.environ["PADDLE_MASTER"].rpartition(":")[2]))

    def shutdown(self):
        """Leave together with the others: rank 0 runs the store that they still use."""
        super().shutdown()
        if self.context.grouped:
            dist.barrier()
            dist.destroy_process_group()


def _before(text, mark):
    """Return the text before `mark`: names end with a time, threads with "(Python)" or "(C++)"."""
    return str(text).partition(mark)[0]
