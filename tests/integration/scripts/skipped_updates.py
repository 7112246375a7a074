"""Prints how many of six updates a line says that its loss scale skipped, and how many it did.

    python skipped_updates.py CODE LINE

CODE is the folder of the benchmarks. On a CPU in float32 only a scale near its largest number
overflows: it does in each of the first steps, and is halved by each.
"""

import argparse
import json
import os
import sys

CODE, LINE = sys.argv[1:]
sys.path.insert(0, CODE)

import first_step  # noqa: E402
import numpy  # noqa: E402
import rank  # noqa: E402

LARGEST, STEPS = 3e38, 6

asked = {"line": LINE, "workload": "bert_base", "scale": "smoke", "batch_size": 2, "seed": 1}
asked.update(execution="default", compiler="none", layout="default", data="synthetic")
asked.update(state_precision="fp32", steps=STEPS)
spec = rank.read_json(os.path.join(CODE, "workloads", "bert_base", "spec.json"))
context = rank.Context(
    first_step.job_of(argparse.Namespace(**asked), spec), "trainer-0", {"ports": {}}, None, spec
)
rank.new_runtime(CODE, context)
context.precision = "fp16" if LINE == "jax" else "fp32"
trainer = rank.new_trainer(CODE, context)
if LINE == "pytorch":
    import torch

    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=LARGEST)
elif LINE == "jax":
    trainer.state["loss_scale"] = numpy.float32(LARGEST)
elif LINE == "tensorflow2":
    import tensorflow as tf

    trainer.loss_scale, trainer.good_steps = tf.Variable(LARGEST), tf.Variable(0)

trainer.keep_weights()
before, made = trainer.weights(), 0
before = {name: numpy.array(value) for name, value in before.items()}
for _ in range(STEPS):
    trainer.step()
    after = {name: numpy.array(value) for name, value in trainer.weights().items()}
    made += any((value != before[name]).any() for name, value in after.items())
    before = after
print(json.dumps([trainer.skipped_updates(STEPS), STEPS - made]))
