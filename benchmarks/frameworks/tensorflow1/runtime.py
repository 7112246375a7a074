"""A TensorFlow 1 process on a node: a trainer or a parameter server, which speak gRPC."""

import os

import numpy
import rendezvous
import tensorflow as tf
import traffic
from base_runtime import Base


class Runtime(Base):
    """One trainer or parameter server."""

    line = "tensorflow1"

    def init(self):
        """Starts the server by which the processes of a gang reach each other's variables."""
        context = self.context
        if context.device is not None:
            raise RuntimeError("the line tensorflow1 is measured on the CPU only")
        tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
        tf.compat.v1.enable_resource_variables()
        tf.compat.v1.enable_v2_tensorshape()
        self.config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=int(os.environ.get("OMP_NUM_THREADS", 0))
        )
        self.cluster = self.server = self.meeting = None
        self.target = ""
        """Address of the session's master; empty for one within this process."""
        if not context.grouped and context.case["strategy"] != "parameter_server":
            return
        for variable in ("http_proxy", "https_proxy"):
            os.environ.pop(variable, None)  # gRPC would send the gang's traffic there
        addresses = {}
        for process in context.job["processes"]:
            job = addresses.setdefault(process["role"], {})
            job[process["rank"]] = "{}:{}".format(*context.address(process["name"]))
        self.cluster = tf.train.ClusterSpec(addresses)
        if context.grouped:
            # Collectives agree on their members at this task's server.
            self.config.experimental.collective_group_leader = "/job:trainer/replica:0/task:0"
        self.server = tf.distribute.Server(
            self.cluster, context.role, context.rank, config=self.config
        )
        self.target = self.server.target
        if context.measured and context.world_size > 1:
            lead = context.address(context.trainers[0]["name"])[0]
            address = lead, context.ports["master"]
            self.meeting = rendezvous.Rendezvous(context.rank, context.world_size, address)

    def barrier(self):
        """Waits for the other trainers."""
        if self.meeting:
            self.meeting.barrier()

    def agree(self, value):
        """Trainer 0's number."""
        return self.meeting.agree(value) if self.meeting else value

    def versions(self):
        """Versions of TensorFlow and NumPy."""
        versions = super().versions()
        versions["tensorflow1"] = tf.__version__
        versions["numpy"] = numpy.__version__
        return versions

    def transport(self):
        """What the servers speak, and the network that this one really uses."""
        if not self.server:
            return None
        return traffic.of_sockets("grpc", self.context.ports["master"])

    def shutdown(self):
        """Leaves together: the others may still read from this process's server."""
        if self.meeting:
            self.meeting.barrier()
            self.meeting.close()
