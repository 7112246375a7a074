"""What a plain loop is given: `<line>.py WORKLOAD_FOLDER PARAMS_JSON BATCH WARMUP STEPS MODE`."""

import importlib.util
import json
import os
import sys

import numpy

folder, params = sys.argv[1], json.loads(sys.argv[2])
batch_size, warmup, steps = (int(word) for word in sys.argv[3:6])
mode = sys.argv[6]
"""Axis and value, `compiler xla`; empty for the line's default."""
# data.py imports readers of the tree that the folder belongs to.
sys.path.append(os.path.dirname(os.path.dirname(folder)))


def module(name):
    """A file of the workload's folder as a module; its name may be the framework's."""
    path = os.path.join(folder, name + ".py")
    spec = importlib.util.spec_from_file_location("workload_" + name, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


batch = module("data").batch(params, batch_size, numpy.random.RandomState(1))
"""Name -> array."""
