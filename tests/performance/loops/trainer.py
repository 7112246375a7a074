"""The trainer of a line as a loop: what rank.py steps, without its window and its checks."""

import os

import rank


def build(given):
    """One step, and a wait for the device."""
    spec = rank.read_json(
        os.path.join(given.code, "workloads", given.case["workload"], "spec.json")
    )
    (process,) = given.job["processes"]
    context = rank.Context(given.job, process["name"], {"ports": {}}, os.getcwd(), spec)
    runtime = rank.new_runtime(given.code, context)
    return rank.new_trainer(given.code, context).step, runtime.device_sync
