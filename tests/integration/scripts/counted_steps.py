"""Prints what a line's trainer counts of one of its own steps: {workload: [FLOPs, units of work]}.

    python counted_steps.py CODE LINE WORKLOAD ...

CODE is the folder of the benchmarks. Scale `smoke`, without dropout.
"""

import argparse
import json
import multiprocessing
import os
import sys

CODE, LINE, *WORKLOADS = sys.argv[1:]
sys.path.insert(0, CODE)

import first_step  # noqa: E402
import rank  # noqa: E402


def counted(workload):
    """The workload, FLOPs of a step, and the units of work in it."""
    spec = rank.read_json(os.path.join(CODE, "workloads", workload, "spec.json"))
    asked = {"line": LINE, "workload": workload, "scale": "smoke", "batch_size": 4}
    asked.update(execution="default", compiler="none", layout="default", data="synthetic")
    asked.update(state_precision="fp32")
    job = first_step.job_of(argparse.Namespace(seed=1, steps=1, **asked), spec)
    context = rank.Context(job, "trainer-0", {"ports": {}}, None, spec)
    rank.new_runtime(CODE, context)
    trainer = rank.new_trainer(CODE, context)
    trainer.count_step()
    return workload, trainer.flops_per_step, trainer.samples_per_step


if __name__ == "__main__":
    # TensorFlow 1 has one graph in each process.
    pool = multiprocessing.Pool(1, maxtasksperchild=1)
    found = pool.map(counted, WORKLOADS, chunksize=1)
    pool.close()
    pool.join()
    print(json.dumps({name: rest for name, *rest in found}))
