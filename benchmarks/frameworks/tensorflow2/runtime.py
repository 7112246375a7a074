"""A TensorFlow 2 process on a node: its device, and the other ranks over gRPC (CPU) or NCCL."""

import glob
import os
import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import profiling
import rendezvous
import tensorflow as tf
import traffic
from base_runtime import Base, leave_proxies

_OPERATOR = re.compile("[^:]+:[A-Z_][A-Za-z0-9_]*$")
"""`conv1/Conv2D:Conv2D`: a node of the graph and what it does; other events have other names."""


class Runtime(Base):
    """One rank with one device."""

    line = "tensorflow2"

    def init(self):
        """Choose the device (the launcher shows the process only its own), join the others."""
        context = self.context
        self.strategy = self.coordinator = None
        self.pending = None
        """Function that waits until the last step is done; the trainer sets it."""
        self.clock = ThreadPoolExecutor(1)
        tf.random.set_seed(context.seed + context.data_rank)
        tf.config.threading.set_intra_op_parallelism_threads(
            int(os.environ.get("OMP_NUM_THREADS", 0))
        )
        if self.gpu:
            for each in tf.config.list_physical_devices("GPU"):
                tf.config.experimental.set_memory_growth(each, True)
        else:
            tf.config.set_visible_devices([], "GPU")
        if context.case["strategy"] == "parameter_server":
            self._meet_servers()
        elif context.grouped:
            self._meet_ranks()

    def _meet_servers(self):
        """Define the cluster of chief, workers and servers (ps); connect the chief to them."""
        context = self.context
        addresses = {}
        for process in context.job["processes"]:
            task = addresses.setdefault(process["role"], {})
            task[process["rank"]] = "{}:{}".format(*context.address(process["name"]))
        self.cluster, self.workers = tf.train.ClusterSpec(addresses), len(addresses["worker"])
        # With one core there would be one thread: it waits for the servers and runs nothing else.
        tf.config.threading.set_inter_op_parallelism_threads(
            max(len(os.sched_getaffinity(0)), self.workers + 1)
        )
        leave_proxies()
        if context.measured:
            self.strategy = tf.distribute.ParameterServerStrategy(
                tf.distribute.cluster_resolver.SimpleClusterResolver(
                    self.cluster, task_type="chief", task_id=0, rpc_layer="grpc"
                )
            )
            self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)

    def new_server(self):
        """Return a new server, which listens as a worker or as a parameter server."""
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=tf.config.threading.get_intra_op_parallelism_threads(),
            inter_op_parallelism_threads=tf.config.threading.get_inter_op_parallelism_threads(),
        )
        role, rank = self.context.role, self.context.rank
        return tf.distribute.Server(self.cluster, role, rank, protocol="grpc", config=config)

    def _meet_ranks(self):
        context = self.context
        if self.gpu:
            traffic.listen_to_nccl(os.environ)
        leave_proxies()
        addresses = [context.address(trainer["name"]) for trainer in context.trainers]
        workers = ["{}:{}".format(*address) for address in addresses]
        communication = tf.distribute.experimental.CommunicationImplementation
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(
            tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec({"worker": workers}),
                task_type="worker",
                task_id=context.rank,
                rpc_layer="grpc",
            ),
            tf.distribute.experimental.CommunicationOptions(
                implementation=communication.NCCL if self.gpu else communication.RING
            ),
        )
        self.master = context.ports["master"]
        lead = (addresses[0][0], self.master)
        self.meeting = rendezvous.Rendezvous(context.rank, context.world_size, lead)

    def barrier(self):
        """Wait for all ranks and their devices."""
        self.device_sync()
        super().barrier()

    def device_sync(self):
        """Wait until the GPU or all workers are idle; a rank's CPU steps are synchronous."""
        if self.gpu:
            tf.test.experimental.sync_devices()
        elif self.coordinator:
            self.coordinator.join()

    def mark(self):
        """Return a mark; on GPUs and with workers, a thread waits until the last step is done.

        TensorFlow has no device events.
        """
        if self.gpu or self.coordinator:
            return self.clock.submit(_time_when_done, self.pending)
        return super().mark()

    def laps(self, marks):
        """Return the seconds between neighbouring marks."""
        waited = self.gpu or self.coordinator
        return super().laps([mark.result() for mark in marks] if waited else marks)

    def profile(self, run):
        """Return the spans of TensorFlow's operators; on GPUs, those of kernels on each stream."""
        from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

        space = XSpace()
        with tempfile.TemporaryDirectory() as folder:
            tf.profiler.experimental.start(folder)
            run()
            tf.profiler.experimental.stop()
            (path,) = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
            with open(path, "rb") as stream:
                space.ParseFromString(stream.read())
        events = []
        for plane in space.planes:
            for line in plane.lines:
                if self.gpu and not line.name.startswith("Stream"):
                    continue
                for event in line.events:
                    name = plane.event_metadata[event.metadata_id].name
                    if self.gpu or _OPERATOR.match(name):
                        begin_s = line.timestamp_ns / 1e9 + event.offset_ps / 1e12
                        thread = (plane.name, line.id)
                        events.append((thread, name, begin_s, event.duration_ps / 1e12))
        return "tf.profiler", profiling.nested(events)

    def allocator_bytes(self):
        """Return the peak bytes of TensorFlow's allocator."""
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]

    def versions(self):
        """Return versions of TensorFlow and, on GPUs, of the CUDA and cuDNN of its build."""
        versions = super().versions()
        versions["tensorflow2"] = tf.__version__
        if self.gpu:
            built = tf.sysconfig.get_build_info()
            versions["cuda"], versions["cudnn"] = built["cuda_version"], built["cudnn_version"]
        return versions

    def transport(self):
        """Return the library between ranks or servers and the network that it really uses."""
        return traffic.of_sockets("grpc") if self.coordinator else super().transport()

    def transport_of_cpus(self):
        """Return gRPC and the network that it really uses."""
        return traffic.of_sockets("grpc", self.master)

    def shutdown(self):
        """Leave together with the others: their collectives may still use this rank's server."""
        self.clock.shutdown()
        super().barrier()
        super().shutdown()


def _time_when_done(wait):
    if wait:
        wait()
    return time.perf_counter()
