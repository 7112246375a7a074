"""A JAX process on a node: its device, and the other ranks over gloo (CPU) or NCCL (GPU)."""

import functools
import glob
import os
import tempfile
import time
from collections import deque

import jax
import numpy
import profiling
import traffic
from base_runtime import Base
from jax._src.lib import _jax
from jax.experimental import multihost_utils

AHEAD = 16
"""Number of steps that may be queued on the device, so that it never waits for Python."""


class Runtime(Base):
    """One rank with one device."""

    line = "jax"
    package = jax

    def init(self):
        """Choose the device (the launcher shows the process only its own), join the others."""
        context = self.context
        jax.config.update("jax_platforms", "cuda" if self.gpu else "cpu")
        self.pending = None
        """Result of the last step; the trainer sets it, and `device_sync` waits for it."""
        self.queued = deque()
        """Marks of steps that may not have ended: the loss, and the time when it was computed."""
        if not context.grouped:
            return
        if self.gpu:
            traffic.listen_to_nccl(os.environ)
        else:
            # JAX lets gloo listen at the address of the host's name, which may not be in the data
            # network, and has no option for it.
            address = context.address(context.process["name"])[0]
            collectives = functools.partial(_jax.make_gloo_tcp_collectives, hostname=address)
            _jax.make_gloo_tcp_collectives = collectives
            jax.config.update("jax_cpu_collectives_implementation", "gloo")
        self.master = context.ports["master"]
        lead = "{}:{}".format(context.address(context.trainers[0]["name"])[0], self.master)
        jax.distributed.initialize(
            lead, context.world_size, context.rank, cluster_detection_method="deactivate"
        )

    def barrier(self):
        """Wait for all ranks and their devices."""
        self.device_sync()
        if self.context.grouped:
            multihost_utils.sync_global_devices("nightbench")

    def broadcast(self, value):
        """Return rank 0's number on every rank, as float32, which is exact up to 2**24."""
        return float(multihost_utils.broadcast_one_to_all(numpy.float32(value)))

    def device_sync(self):
        """Wait until the device is idle."""
        self._note(0)
        jax.block_until_ready(self.pending)

    def mark(self):
        """Return a mark for the moment at which the last step's loss is computed.

        JAX has no device events, and its steps return before they have run.
        """
        mark = [self.pending and self.pending[-1], None]
        self.queued.append(mark)
        self._note(AHEAD)
        return mark

    def _note(self, left):
        """Record when steps have ended; wait until at most `left` steps are queued."""
        while self.queued and (len(self.queued) > left or _is_there(self.queued[0][0])):
            mark = self.queued.popleft()
            jax.block_until_ready(mark[0])
            mark[:] = None, time.perf_counter()

    def laps(self, marks):
        """Return the seconds between neighbouring marks."""
        return super().laps([noted_s for _, noted_s in marks])

    def profile(self, run):
        """Return the spans of XLA's operators; on GPUs, those of their kernels on each stream."""
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                run()
            (path,) = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
            planes = jax.profiler.ProfileData.from_file(path).planes
        events = [
            ((plane.name, line.name), event.name, event.start_ns / 1e9, event.duration_ns / 1e9)
            for plane in planes
            for line in plane.lines
            if line.name.startswith("Stream") or not self.gpu
            for event in line.events
            if any(name == "hlo_op" for name, _ in event.stats)
        ]
        return "jax.profiler", profiling.nested(events)

    def allocator_bytes(self):
        """Return the peak bytes of XLA's allocator."""
        return jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]

    def versions(self):
        """Return the versions of JAX, jaxlib, NumPy and, on GPUs, of CUDA."""
        versions = super().versions()
        versions["jaxlib"] = jax.lib.__version__
        if self.gpu:
            versions["cuda"] = jax.local_devices()[0].client.platform_version
        return versions

    def transport_of_cpus(self):
        """Return gloo and the network that it really uses."""
        return traffic.of_sockets("gloo", self.master)

    def shutdown(self):
        """Leave together with the others: rank 0 runs the store that they still use."""
        if self.context.grouped:
            jax.distributed.shutdown()


def _is_there(loss):
    return loss is None or loss.is_ready()
