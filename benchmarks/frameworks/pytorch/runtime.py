"""A PyTorch process on a node: its device, its process group over gloo (CPU) or NCCL (GPU)."""

import os

import torch
import torch.distributed as dist
import traffic
from base_runtime import EventClock


class Runtime(EventClock):
    """One rank."""

    line = "pytorch"
    new_event = torch.cuda.Event

    def init(self):
        """Choose the device (the launcher shows the process only its own), join the others."""
        self.device = torch.device("cuda", 0) if self.gpu else torch.device("cpu")
        torch.manual_seed(self.context.seed + self.context.data_rank)
        if self.gpu:
            torch.cuda.set_device(self.device)
            torch.backends.cudnn.benchmark = True
        if self.context.grouped:
            if self.gpu:
                traffic.listen_to_nccl(os.environ)
            dist.init_process_group("nccl" if self.gpu else "gloo")

    def barrier(self):
        """Wait for all ranks and for the device, because NCCL only queues the barrier."""
        if self.context.grouped:
            dist.barrier()
            self.device_sync()

    def broadcast(self, value):
        """Return rank 0's number on every rank."""
        shared = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(shared, src=0)
        return shared.item()

    def mean(self, value):
        """Return the mean of a number over all ranks."""
        shared = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(shared)
        return shared.item() / self.context.world_size

    def device_sync(self):
        """Wait until the GPU is idle; steps on the CPU have ended when they return."""
        if self.gpu:
            torch.cuda.synchronize()

    def profile(self, run):
        """Return the spans of PyTorch's operators; on GPUs, those of the kernels they launch."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.gpu:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profiler:
            run()
        spans = []
        for event in profiler.events():
            if event.device_type != torch.autograd.DeviceType.CPU:
                continue  # a kernel: it is listed at the operator that launched it
            path = [event.name]
            parent = event.cpu_parent
            while parent is not None:
                path.append(parent.name)
                parent = parent.cpu_parent
            path = tuple(reversed(path))
            if self.gpu:
                spans += [
                    ((*path, kernel.name), 1, kernel.duration / 1e6) for kernel in event.kernels
                ]
            else:
                spans.append((path, 1, event.self_cpu_time_total / 1e6))
        return "torch.profiler", spans

    def allocator_bytes(self):
        """Return the peak bytes of the caching allocator."""
        return torch.cuda.max_memory_allocated()

    def versions(self):
        """Return PyTorch's version and, on GPUs, its CUDA, cuDNN and NCCL."""
        versions = super().versions()
        versions["pytorch"] = str(torch.__version__)
        if self.gpu:
            versions["cuda"] = str(torch.version.cuda)
            versions["cudnn"] = str(torch.backends.cudnn.version())
            versions["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        return versions

    def transport_of_cpus(self):
        """Return gloo and the network that it really uses."""
        return traffic.of_sockets("gloo", int(os.environ["MASTER_PORT"]))

    def shutdown(self):
        """Leave together with the others: rank 0 runs the store that they still use."""
        if self.context.grouped:
            dist.barrier()
            dist.destroy_process_group()
