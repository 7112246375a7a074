"""A line's trainer as a process on a node makes it, for the scripts that look at its program."""

import importlib.util
import json
import os
import sys


def trainer_of(code, job, name, api, runtime=None):
    """Returns the trainer of a process.

    Args:
        code: folder of the benchmarks.
        job: path of job.json, with the gang's `ports`.
        name: of the process.
        api: which model file of the workload it trains.
        runtime: of the line, where the trainer asks one.
    """
    with open(job) as stream:
        job = json.load(stream)
    workload = os.path.join(code, "workloads", job["case"]["workload"])
    framework = os.path.join(code, "frameworks", job["case"]["framework"])
    sys.path[:0] = [framework, code]
    import rank

    with open(os.path.join(workload, "spec.json")) as stream:
        spec = json.load(stream)
    context = rank.Context(job, name, {"ports": job["ports"]}, None, spec)
    context.runtime = runtime
    trainer, network, data = (
        _load(os.path.join(*path))
        for path in ((framework, "trainer.py"), (workload, api + ".py"), (workload, "data.py"))
    )
    return trainer.Trainer(context, network, data)


def _load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
