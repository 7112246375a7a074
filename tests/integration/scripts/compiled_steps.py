"""Prints how often a compiled PyTorch step calls its compiled code: before count_step, and after.

    python compiled_steps.py CODE

CODE is the folder of the benchmarks. The compiler is a counter: no C++ compiler is needed.
"""

import argparse
import json
import os
import shutil
import sys

CODE = sys.argv[1]
sys.path.insert(0, CODE)

import first_step  # noqa: E402
import rank  # noqa: E402
import torch  # noqa: E402

calls = [0]


def counting(graph, _):
    def compiled(*given):
        calls[0] += 1
        return graph.forward(*given)

    return compiled


def calls_of(step):
    before = calls[0]
    step()
    return calls[0] - before


compile_with_inductor = torch.compile
torch.compile = lambda function, **_: compile_with_inductor(function, backend=counting)
shutil.which = lambda name: name
spec = rank.read_json(os.path.join(CODE, "workloads", "simnet_bow", "spec.json"))
asked = {"line": "pytorch", "workload": "simnet_bow", "scale": "smoke", "batch_size": 4}
asked.update(execution="default", compiler="inductor", layout="default", data="synthetic")
asked.update(state_precision="fp32")
job = first_step.job_of(argparse.Namespace(seed=1, steps=1, **asked), spec)
context = rank.Context(job, "trainer-0", {"ports": {}}, None, spec)
rank.new_runtime(CODE, context)
trainer = rank.new_trainer(CODE, context)
before = calls_of(trainer.step)
trainer.count_step()
print(json.dumps([before, calls_of(trainer.step), trainer.flops_per_step]))
