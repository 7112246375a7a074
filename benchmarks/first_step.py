"""The first training step of a cell: loss, gradient norm, parameters. For comparing lines.

    python first_step.py pytorch resnet50_v1.5 --scale smoke --batch-size 8

Run it with the interpreter of the line's environment. It trains one rank for one step, from the
initial weights and on the batch that every line gets, by plain SGD at a learning rate of 1. The
change of a weight is its gradient. So this tests the line's own trainer, and no line needs code
for it. It prints one JSON document:

    {"line", "workload", "loss", "gradient_norm", "parameters", "gradient_norms": {name: norm}}

Weights that begin as constants (a batch norm's scale of 0 hides all layers before it) are varied at
random, in the same way for every line; `--as-initialised` keeps them constant.

`--gradients FILE` writes the gradients (NumPy's .npz). `--along FILE --by STEP` first moves every
weight by that length along its gradient in the file. The change of the loss shows, without another
line, whether they are its gradients: see `gradients_of_no_loss` of nightbench.testkit.
`--twice first` replaces the second half of the batch by the first: if the loss does not change, it
is the loss of the first half only.

`--steps N` takes N steps by the workload's own optimizer instead, on as many batches, and prints
{"line", "workload", "losses"}. Lines with equivalent optimizers have the same losses.
"""

import argparse
import json
import os
import sys

import numpy
from base_trainer import DoesNotFit
from rank import Context, new_runtime, new_trainer, read_json

CODE = os.path.dirname(os.path.abspath(__file__))


def job_of(options, spec):
    """Return a job.json of one rank, with the keys that runtimes and trainers read."""
    process = {"name": "trainer-0", "role": "trainer", "rank": 0, "node": "n1"}
    process.update(local_rank=0, device=None, measured=True)
    scales = spec["scales"]
    changes = {"dropout": 0.0, "batches": max(1, options.steps)}
    if not options.steps:
        changes.update(optimizer="sgd", learning_rate=1.0, weight_decay=0.0)
    case = {
        "framework": options.line,
        "workload": options.workload,
        "strategy": "single",
        "batch_size_per_device": options.batch_size or spec.get("first_step_batch_size", 8),
        "precision": "fp32",
        "execution": options.execution,
        "compiler": options.compiler,
        "layout": options.layout,
        "compression": "none",
        "state_precision": options.state_precision,
        "sync": "sync",
        "data": options.data,
    }
    return {
        "case": case,
        "nodes": [{"name": "n1", "data_address": "127.0.0.1", "interface": "lo"}],
        "processes": [process],
        "workload": {
            "params": {
                **scales[options.scale or ("smoke" if "smoke" in scales else min(scales))],
                **changes,
            },
            "seed": options.seed,
            "data_path": None,
        },
    }


class Changed:
    """A workload's data.py whose initial weights are changed as the options say.

    Constant weights are moved by up to 0.5, all weights along gradients from a file.
    """

    def __init__(self, data, options):
        self._data = data
        self._vary = not options.as_initialised
        self._along = dict(numpy.load(options.along)) if options.along else {}
        self._only = options.only or self._along
        self._by = options.by
        self._twice = options.twice

    def __getattr__(self, name):
        return getattr(self._data, name)

    def batch(self, *given):
        """Return a batch of data.py; with `--twice`, one half also replaces the other."""
        made = self._data.batch(*given)
        for value in made.values() if self._twice else ():
            halves = value[: len(value) // 2], value[-(len(value) // 2) :]
            kept, other = halves if self._twice == "first" else halves[::-1]
            other[...] = kept
        return made

    def weights(self, params, random):
        """Return the weights of data.py, changed."""
        made = self._data.weights(params, random)
        for name, value in made.items():
            if self._vary and value.min() == value.max():
                made[name] = value + random.uniform(-0.5, 0.5, value.shape)
            if name in self._only:
                gradient = self._along[name].astype("float64")
                made[name] = made[name] + self._by * gradient / numpy.linalg.norm(gradient)
        return made


def first_step(options):
    """Return the document; see the module's docstring."""
    spec = read_json(os.path.join(CODE, "workloads", options.workload, "spec.json"))
    job = job_of(options, spec)
    context = Context(job, "trainer-0", {"ports": {}}, None, spec)
    new_runtime(CODE, context)
    trainer = new_trainer(CODE, context, lambda data: Changed(data, options))
    if options.steps:
        for _ in range(options.steps):
            trainer.step()
        return {"line": options.line, "workload": options.workload, "losses": trainer.losses()}
    before = {name: numpy.array(value) for name, value in trainer.weights().items()}
    trainer.step()
    after = trainer.weights()
    gradients = {name: before[name].astype("float64") - after[name] for name in sorted(before)}
    if options.gradients:
        numpy.savez(options.gradients, **gradients)
    norms = {name: float(numpy.linalg.norm(value)) for name, value in gradients.items()}
    return {
        "line": options.line,
        "workload": options.workload,
        "loss": trainer.losses()[0],
        "gradient_norm": float(numpy.linalg.norm(list(norms.values()))),
        "parameters": trainer.parameters,
        "gradient_norms": norms,
    }


def main():
    """Print the document; exit code 2 if network and data do not fit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("line", help="a folder of frameworks/")
    parser.add_argument("workload", help="a folder of workloads/")
    parser.add_argument("--scale", help="scale of spec.json [default: smoke, or the first]")
    parser.add_argument("--batch-size", type=int, help="samples [default: spec.json's, or 8]")
    parser.add_argument("--execution", default="default", help="value of the axis of that name")
    parser.add_argument("--compiler", default="none", help="value of the axis of that name")
    parser.add_argument("--layout", default="default", help="value of the axis of that name")
    parser.add_argument("--state-precision", default="fp32", help="value of the axis of that name")
    parser.add_argument(
        "--data", default="synthetic", choices=["synthetic", "sample"], help="value of the axis"
    )
    parser.add_argument("--seed", type=int, default=1, help="of weights and batch [default: 1]")
    parser.add_argument("--steps", type=int, default=0, help="steps of the workload's optimizer")
    parser.add_argument("--gradients", help="file for the gradients (.npz)")
    parser.add_argument("--along", help="move the initial weights along this file's gradients")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="change only these weights")
    parser.add_argument("--by", type=float, default=0.0, help="length of this move [default: 0]")
    parser.add_argument("--twice", choices=["first", "second"], help="use this half twice")
    parser.add_argument("--as-initialised", action="store_true", help="vary no constant weight")
    try:
        document = first_step(parser.parse_args())
    except DoesNotFit as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
