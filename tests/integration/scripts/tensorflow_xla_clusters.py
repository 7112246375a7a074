"""Prints what XLA compiles of a step of a trainer of tensorflow1.

    python tensorflow_xla_clusters.py CODE job.json ...

CODE is the folder of the benchmarks. What is placed on a GPU runs on the CPU here, where sessions
compile too if a flag lets them: whether they are asked to is the runtime's. Prints a line of JSON
for each job: the operators of XLA in the graph that the session runs.
"""

import json
import os
import sys

CODE, *JOBS = sys.argv[1:]
sys.path[:0] = [os.path.join(CODE, "frameworks", "tensorflow1"), CODE]
os.environ["TF_XLA_FLAGS"] = "--tf_xla_cpu_global_jit --tf_xla_min_cluster_size=1"

import rank  # noqa: E402
import tensorflow as tf  # noqa: E402

# It has no kernel for CPUs.
tf.contrib.memory_stats.MaxBytesInUse = lambda: tf.zeros([], tf.int64)


def clusters(path):
    """Operators of XLA in what a step runs."""
    job = rank.read_json(path)
    for process in job["processes"]:
        process["device"] = "0"
    spec = rank.read_json(os.path.join(CODE, "workloads", job["case"]["workload"], "spec.json"))
    context = rank.Context(job, "trainer-0", {"ports": job["ports"]}, None, spec)
    rank.new_runtime(CODE, context)
    trainer = rank.new_trainer(CODE, context)
    ran, run = tf.compat.v1.RunMetadata(), trainer.session.run
    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    trainer.session.run = lambda *args, **named: run(
        *args, options=options, run_metadata=ran, **named
    )
    trainer.step()
    return sorted(
        {node.op for graph in ran.partition_graphs for node in graph.node if "Xla" in node.op}
    )


for path in JOBS:
    with tf.Graph().as_default():
        print(json.dumps({"operators": clusters(path)}), flush=True)
