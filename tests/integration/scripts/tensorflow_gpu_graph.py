"""Prints the graph that a trainer of tensorflow1 makes for a GPU, where there is none.

    python tensorflow_gpu_graph.py CODE job.json trainer-0

CODE is the folder of the benchmarks. What is placed on a GPU runs on the CPU here; the rewriter
that casts is told of a GPU that is not there. Prints JSON: `types`, operator -> the types that it
computes in after that; `placed`, operator -> the kinds of devices; `collectives`, their libraries;
`losses` of three steps, where the rank is alone.
"""

import collections
import importlib.util
import json
import os
import sys

CODE, JOB, NAME = sys.argv[1:]
with open(JOB) as stream:
    JOB = json.load(stream)
WORKLOAD = os.path.join(CODE, "workloads", JOB["case"]["workload"])
FRAMEWORK = os.path.join(CODE, "frameworks", JOB["case"]["framework"])
sys.path[:0] = [FRAMEWORK, CODE]

import rank  # noqa: E402
import rendezvous  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import device_properties_pb2  # noqa: E402
from tensorflow.python.grappler import cluster, tf_optimizer  # noqa: E402

STEPS = 3


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rewritten(trainer, config, own):
    """The nodes of the step's graph after the rewriter, as on a V100."""
    device = device_properties_pb2.NamedDevice(name=own)
    device.properties.type = "GPU"
    device.properties.environment["architecture"] = "7"
    host = device_properties_pb2.NamedDevice(name=own.replace("GPU", "CPU"))
    host.properties.type = "CPU"
    graph = tf.compat.v1.get_default_graph()
    with graph.as_default():
        fetched = graph.get_collection_ref(tf.compat.v1.GraphKeys.TRAIN_OP)
        fetched.extend(trainer.fetched)
    meta = tf.compat.v1.train.export_meta_graph(graph=graph)
    return tf_optimizer.OptimizeGraph(
        config, meta, cluster=cluster.Cluster(devices=[device, host])
    ).node


def main():
    with open(os.path.join(WORKLOAD, "spec.json")) as stream:
        spec = json.load(stream)
    context = rank.Context(JOB, NAME, {"ports": JOB["ports"]}, None, spec)
    runtime = load("runtime", os.path.join(FRAMEWORK, "runtime.py")).Runtime(context)
    context.runtime = runtime
    # The others never come.
    rendezvous.Rendezvous = lambda *args: None
    runtime.init()
    # It has no kernel for CPUs.
    tf.contrib.memory_stats.MaxBytesInUse = lambda: tf.zeros([], tf.int64)
    Trainer = load("trainer", os.path.join(FRAMEWORK, "trainer.py")).Trainer
    network = load("network", os.path.join(WORKLOAD, "tensorflow.py"))
    data = load("data", os.path.join(WORKLOAD, "data.py"))
    if context.grouped:
        # Nor do their servers.
        Trainer._initialise = lambda self: None
    trainer = Trainer(context, network, data)
    own = (trainer._device() or "").replace("/job:trainer/task:", "/job:trainer/replica:0/task:")
    if own.startswith("/device"):
        own = "/job:localhost/replica:0/task:0" + own
    types, placed, hints = (collections.defaultdict(set) for _ in range(3))
    for node in rewritten(trainer, runtime.config, own):
        if "T" in node.attr:
            types[node.op].add(tf.as_dtype(node.attr["T"].type).name)
    for node in tf.compat.v1.get_default_graph().as_graph_def().node:
        placed[node.op].add(node.device)
        if node.op == "CollectiveReduce":
            hints[node.op].add(node.attr["communication_hint"].s.decode())
    found = {"types": types, "placed": placed, "collectives": hints}
    found = {name: {op: sorted(x) for op, x in each.items()} for name, each in found.items()}
    if not context.grouped:
        for _ in range(STEPS):
            trainer.step()
        found["losses"] = trainer.losses()
    print(json.dumps(found))


main()
