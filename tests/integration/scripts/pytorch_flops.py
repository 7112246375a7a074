"""Prints what two counters of PyTorch make of one forward pass of workloads, by name.

    python pytorch_flops.py CODE WORKLOAD ...

CODE is the folder of the benchmarks. Attention goes through products that the counters see:
`torch.utils.flop_counter`, in Python, by operators, and the profiler, in C++, by calls.
"""

import argparse
import json
import os
import sys

CODE, *WORKLOADS = sys.argv[1:]
sys.path.insert(0, CODE)

import first_step  # noqa: E402
import rank  # noqa: E402
import torch  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.profiler import profile  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::conv2d")


def counted(workload):
    """FLOPs of one forward pass at the smoke scale by counter, and the units of work in it."""
    spec = rank.read_json(os.path.join(CODE, "workloads", workload, "spec.json"))
    asked = {"line": "pytorch", "workload": workload, "scale": "smoke", "batch_size": 4}
    asked.update(execution="default", compiler="none", layout="default", data="synthetic")
    asked.update(state_precision="fp32")
    job = first_step.job_of(argparse.Namespace(seed=1, steps=0, **asked), spec)
    context = rank.Context(job, "trainer-0", {"ports": {}}, None, spec)
    rank.new_runtime(CODE, context)
    trainer = rank.new_trainer(CODE, context)
    batch = next(trainer.batches)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        trainer.loss(trainer.model, batch)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), profile(with_flops=True) as profiler:
        trainer.loss(trainer.model, batch)
    seen = {event.key: event.flops for event in profiler.key_averages()}
    products = sum(seen.get(name, 0) for name in PRODUCTS)
    flops = {"flop_counter": counter.get_total_flops(), "profiler": products}
    return {"flops": flops, "units": trainer.samples_per_step}


print(json.dumps({workload: counted(workload) for workload in WORKLOADS}))
