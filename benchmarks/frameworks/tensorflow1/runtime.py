"""A TensorFlow 1 process on a node: a trainer or a parameter server, over gRPC or NCCL."""

import os

import rendezvous
import tensorflow as tf
import traffic
from base_runtime import Base, leave_proxies
from tensorflow.core.protobuf import rewriter_config_pb2


class Runtime(Base):
    """One trainer or parameter server."""

    line = "tensorflow1"
    package = tf

    def init(self):
        """Start the server through which the processes of a gang access each other's variables."""
        context = self.context
        self.allocated = None
        """Function for the peak of TensorFlow's allocator in bytes; a trainer on a GPU sets it."""
        tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
        tf.compat.v1.set_random_seed(context.seed + context.data_rank)
        tf.compat.v1.enable_resource_variables()
        tf.compat.v1.enable_v2_tensorshape()
        self.config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=int(os.environ.get("OMP_NUM_THREADS", 0))
        )
        if self.gpu:
            self._choose_modes()
        else:
            self.config.device_count["GPU"] = 0  # a parameter server's node may have some
        self.cluster = self.server = None
        self.target = ""
        """Address of the session's master; empty for one within this process."""
        if not context.grouped and context.case["strategy"] != "parameter_server":
            return
        leave_proxies()
        addresses = {}
        for process in context.job["processes"]:
            job = addresses.setdefault(process["role"], {})
            job[process["rank"]] = "{}:{}".format(*context.address(process["name"]))
        self.cluster = tf.train.ClusterSpec(addresses)
        if context.grouped:
            # Collectives negotiate their members at this task's server.
            self.config.experimental.collective_group_leader = "/job:trainer/replica:0/task:0"
            if self.gpu:
                traffic.listen_to_nccl(os.environ)
                self.config.experimental.collective_nccl = True
        self.server = tf.distribute.Server(
            self.cluster, context.role, context.rank, config=self.config
        )
        self.target = self.server.target
        if context.measured and context.world_size > 1:
            lead = context.address(context.trainers[0]["name"])[0]
            address = lead, context.ports["master"]
            self.meeting = rendezvous.Rendezvous(context.rank, context.world_size, address)

    def _choose_modes(self):
        """Make sessions on a GPU cast to float16 or compile with XLA, if the case asks for it.

        The rewriter behind `enable_mixed_precision_graph_rewrite` inserts the casts. The trainer
        does the loss scaling, which is the other half of that function.
        """
        case, config = self.context.case, self.config
        config.allow_soft_placement = True  # GPUs have no kernels for indices and counters
        config.gpu_options.allow_growth = True
        if case["precision"] == "fp16":
            rewrites = config.graph_options.rewrite_options
            rewrites.auto_mixed_precision = rewriter_config_pb2.RewriterConfig.ON
        if case["compiler"] == "xla":
            optimizer = config.graph_options.optimizer_options
            optimizer.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1

    def allocator_bytes(self):
        """Return the peak bytes of TensorFlow's allocator."""
        return int(self.allocated())

    def transport(self):
        """Return the servers' protocol, and the network that this server really uses."""
        if not self.server:
            return None
        if self.gpu and self.context.grouped:
            return traffic.of_nccl(os.environ)
        return traffic.of_sockets("grpc", self.context.ports["master"])

    def shutdown(self):
        """Leave together with the others: they may still read from this process's server."""
        self.barrier()
        super().shutdown()
