"""PyTorch on a node: DistributedDataParallel over gloo (CPU) or NCCL (GPU)."""

import hashlib
import os
import time

import torch
import torch.distributed as dist
import traffic
from base_runtime import Base, expect_precision

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Runtime(Base):
    """One rank."""

    line = "pytorch"

    def init(self):
        """Chooses the device (the launcher shows the process only its own), joins the others."""
        context = self.context
        self.gpu = context.device is not None
        self.device = torch.device("cuda", 0) if self.gpu else torch.device("cpu")
        torch.backends.cuda.matmul.allow_tf32 = context.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = context.precision == "tf32"
        if self.gpu:
            torch.cuda.set_device(self.device)
            torch.backends.cudnn.benchmark = True
        self.collective = context.case["strategy"] == "collective"
        if self.collective:
            # One rank joins as well: the program is the same at every size, so that efficiency
            # compares communication and nothing else.
            if self.gpu:
                traffic.listen_to_nccl(os.environ)
            dist.init_process_group("nccl" if self.gpu else "gloo")

    def parallel(self, model):
        """The model with its gradients averaged over the ranks."""
        if not self.collective:
            return model
        return torch.nn.parallel.DistributedDataParallel(model)

    def autocast(self):
        """Mixed precision where the case asks for it; otherwise nothing."""
        dtype = AUTOCAST.get(self.context.precision)
        return torch.autocast(self.device.type, dtype, enabled=dtype is not None)

    def barrier(self):
        """Waits for all ranks; NCCL only queues it, so the device is waited for as well."""
        if self.collective:
            dist.barrier()
            self.device_sync()

    def agree(self, value):
        """Rank 0's number, by broadcast."""
        if not self.collective:
            return value
        shared = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(shared, src=0)
        return shared.item()

    def device_sync(self):
        """Waits until the GPU is idle; steps on the CPU have ended when they return."""
        if self.gpu:
            torch.cuda.synchronize()

    def mark(self):
        """A device event on GPUs: the host never waits for it inside the window."""
        if not self.gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def laps(self, marks):
        """Seconds between neighbouring marks."""
        if not self.gpu:
            return super().laps(marks)
        return [begin.elapsed_time(end) / 1e3 for begin, end in zip(marks, marks[1:])]

    def weights_digest(self, task):
        """The sha256 over names and values of all trainable parameters, batch-norm buffers not."""
        digest = hashlib.sha256()
        for name, parameter in sorted(task.model.named_parameters()):
            digest.update(name.encode())
            digest.update(parameter.detach().float().cpu().numpy().tobytes())
        return digest.hexdigest()

    def peak_memory(self):
        """Bytes of the process and, on GPUs, of the caching allocator."""
        peak = super().peak_memory()
        if self.gpu:
            peak["allocator_bytes"] = torch.cuda.max_memory_allocated()
        return peak

    def versions(self):
        """PyTorch's version and, on GPUs, its CUDA, cuDNN and NCCL."""
        versions = super().versions()
        versions["pytorch"] = str(torch.__version__)
        if self.gpu:
            versions["cuda"] = str(torch.version.cuda)
            versions["cudnn"] = str(torch.backends.cudnn.version())
            versions["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        return versions

    def transport(self):
        """The process group's backend and the network that it really uses."""
        if not self.collective or self.context.world_size == 1:
            return None
        if self.gpu:
            return traffic.of_nccl(os.environ)
        return traffic.of_gloo(int(os.environ["MASTER_PORT"]))

    def precision_proof(self, task):
        """Looks at what a product keeps of 1 + 2^-12: TF32 and bfloat16 round it to 1.

        fp16 keeps 10 bits as TF32 does; autocast is recognised by the type of what it returns.
        """
        size = 256
        fine = torch.full((size, size), 1 + 2.0**-12, device=self.device)
        unit = torch.eye(size, device=self.device)
        with self.autocast():
            product = fine @ unit
            image = torch.nn.functional.conv2d(
                fine.view(1, size, 16, 16), unit.view(size, size, 1, 1)
            )
        types = {torch.bfloat16: "bf16", torch.float16: "fp16"}
        if product.dtype in types:
            return expect_precision(self.context.precision, types[product.dtype])
        exact = bool((product == fine).all())
        flags = torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
        if exact and (flags or not bool((image.flatten() == fine.flatten()).all())):
            raise RuntimeError("products are computed in fp32, but TF32 is allowed elsewhere")
        return expect_precision(self.context.precision, "fp32" if exact else "tf32")

    def shutdown(self):
        """Leaves together: rank 0 holds the store that the others still speak to."""
        if self.collective:
            dist.barrier()
            dist.destroy_process_group()
